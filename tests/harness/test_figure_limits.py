from __future__ import annotations

import math

import pytest
from agent.dossiers import GOAL
from agent.sessions import window

from infra_agent.goal.model import Constraints, Direction, Limit, Metric, Statistic, Target
from infra_agent.harness.figure import (
    goal_value,
    limit_holds,
    oriented_log,
    quantity_name,
    requests_needed,
    target_ratio,
    why_no_value,
)

LATENCY = GOAL.model_copy(
    update={
        "metric": Metric.TTFT_S,
        "statistic": Statistic.P90,
        "direction": Direction.MINIMISE,
        "target": Target(kind="absolute", value=0.4),
    }
)


@pytest.mark.parametrize(
    ("metric", "statistic", "name"),
    [
        (Metric.OUTPUT_TOK_PER_S, Statistic.VALUE, "output_tok_per_s"),
        (Metric.TTFT_S, Statistic.MEAN, "ttft_s"),
        (Metric.TTFT_S, Statistic.P99, "ttft_p99_s"),
        (Metric.E2E_S, Statistic.P50, "e2e_p50_s"),
    ],
)
def test_a_metric_and_its_statistic_name_one_quantity(metric: Metric, statistic: Statistic, name: str) -> None:
    assert quantity_name(metric, statistic) == name


def test_ratios_are_oriented_so_that_more_is_better() -> None:
    assert oriented_log(GOAL, math.e) == pytest.approx(1.0)
    assert oriented_log(LATENCY, math.e) == pytest.approx(-1.0)


def test_an_absolute_latency_target_becomes_the_oriented_ratio_that_stock_lacks() -> None:
    assert target_ratio(LATENCY, stock_value=0.8) == pytest.approx(2.0)
    assert target_ratio(GOAL, stock_value=123.0) == pytest.approx(2.0)


def test_a_withheld_figure_is_none() -> None:
    assert goal_value(LATENCY, window(25.0)) is None
    assert goal_value(LATENCY, window(25.0, ttft_p90_s=0.3)) == pytest.approx(0.3)


@pytest.mark.parametrize(("value", "holds"), [(0.4, True), (0.5, True), (0.51, False)])
def test_a_limit_compares_with_its_own_quantity(value: float, holds: bool) -> None:
    limit = Limit(metric=Metric.TTFT_S, statistic=Statistic.P90, bound="at_most", value=0.5)
    assert limit_holds(limit, window(25.0, ttft_p90_s=value)) is holds


def test_a_limit_without_its_quantity_is_unknown_not_held() -> None:
    limit = Limit(metric=Metric.TTFT_S, statistic=Statistic.P99, bound="at_most", value=0.5)
    assert limit_holds(limit, window(25.0, ttft_p90_s=0.1)) is None


def test_a_percentile_in_goal_or_limit_raises_the_number_of_requests_to_its_floor() -> None:
    limit = Limit(metric=Metric.TTFT_S, statistic=Statistic.P95, bound="at_most", value=0.5)
    assert requests_needed(GOAL, 12, 4) == 12
    assert requests_needed(LATENCY, 12, 4) == 64
    assert requests_needed(GOAL.model_copy(update={"constraints": Constraints(limits=(limit,))}), 12, 4) == 130


def test_a_closed_loop_has_several_rounds_of_requests() -> None:
    assert requests_needed(GOAL, 12, 64) == 192
    assert requests_needed(GOAL, 12, 1) == 12


def test_a_figure_of_zero_has_no_ratio_and_the_reason_says_so() -> None:
    nothing = window(25.0, ttft_p90_s=0.0)
    assert goal_value(LATENCY, nothing) is None
    assert "is 0" in why_no_value(LATENCY, nothing)
    assert "cannot be measured here" in why_no_value(LATENCY, window(25.0))
