from __future__ import annotations

import math

import pytest
from agent.dossiers import GOAL
from agent.sessions import window

from infra_agent.goal.model import Constraints, Direction, Goal, Limit, Metric, Statistic, Target
from infra_agent.harness.figure import (
    beyond_log,
    goal_value,
    limit_words,
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


@pytest.mark.parametrize(("value", "sign"), [(0.4, -1), (0.5, 0), (0.51, 1)])
def test_how_far_a_figure_lies_beyond_a_level_is_above_zero_where_it_is_broken(value: float, sign: int) -> None:
    limit = Limit(metric=Metric.TTFT_S, statistic=Statistic.P90, bound="at_most", value=0.5)
    beyond = beyond_log(limit, value, None)
    assert beyond is not None
    assert (beyond > 1e-12) - (beyond < -1e-12) == sign
    least = limit.model_copy(update={"bound": "at_least"})
    assert beyond_log(least, value, None) == pytest.approx(-beyond)
    assert limit_words(limit) == "at most 0.5"


def test_a_ratio_is_compared_with_what_it_was_before() -> None:
    limit = Limit(metric=Metric.TTFT_S, statistic=Statistic.MEAN, bound="at_most", value=1.05, kind="ratio")
    assert beyond_log(limit, 0.42, 0.4) == pytest.approx(0.0)
    assert beyond_log(limit, 0.44, 0.4) == pytest.approx(math.log(1.1 / 1.05))
    assert limit_words(limit) == "at most x1.05 of the base"


@pytest.mark.parametrize(("value", "base"), [(None, 0.4), (0.4, None), (0.0, 0.4), (0.4, 0.0)])
def test_a_constraint_without_a_figure_is_unknown_not_held(value: float | None, base: float | None) -> None:
    limit = Limit(metric=Metric.TTFT_S, statistic=Statistic.MEAN, bound="at_most", value=1.05, kind="ratio")
    assert beyond_log(limit, value, base) is None


def test_a_ratio_is_no_part_of_an_slo() -> None:
    limit = Limit(metric=Metric.TTFT_S, statistic=Statistic.MEAN, bound="at_most", value=1.05, kind="ratio")
    goodput = {"metric": Metric.GOODPUT_PER_S, "slo": (limit,)}
    with pytest.raises(ValueError, match="not a ratio"):
        Goal.model_validate({**GOAL.model_dump(), **goodput})


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
