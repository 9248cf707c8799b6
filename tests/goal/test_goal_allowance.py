"""Constraints against what a metric was before: "within 5 %"."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra_agent.errors import GoalError
from infra_agent.goal.echo import describe
from infra_agent.goal.files import dump_goal, load_goal
from infra_agent.goal.parse import parse_goal
from infra_agent.goal.say import sentence


@pytest.mark.parametrize(
    ("text", "metric", "statistic", "bound", "value"),
    [
        ("double throughput with TTFT within 5 %", "ttft_s", "p50", "at_most", 1.05),
        ("double throughput keeping p99 TTFT within 10 % of stock", "ttft_s", "p99", "at_most", 1.1),
        ("double throughput without raising mean TPOT by more than 2.5 %", "tpot_s", "mean", "at_most", 1.025),
        ("double throughput, with memory within 5 %", "memory_bytes", "value", "at_most", 1.05),
        ("halve p50 TTFT, keeping requests per second within 3 %", "requests_per_s", "value", "at_least", 0.97),
        ("halve p50 TTFT without lowering output tokens per second by more than 4 %", "output_tok_per_s", "value",
         "at_least", 0.96),
    ],
)  # fmt: skip
def test_an_allowance_is_a_ratio_on_the_side_that_gets_worse(
    text: str, metric: str, statistic: str, bound: str, value: float
) -> None:
    (limit,) = parse_goal(text).constraints.limits
    assert (limit.metric.value, limit.statistic.value, limit.bound) == (metric, statistic, bound)
    assert (limit.kind, limit.value) == ("ratio", pytest.approx(value))


def test_an_allowance_stands_beside_a_budget_and_levels() -> None:
    goal = parse_goal("double throughput with TTFT within 5 % and memory at most 4 GB, within 10 minutes")
    assert [limit.kind for limit in goal.constraints.limits] == ["ratio", "absolute"]
    assert goal.budget_s == 600.0


def test_it_is_echoed_said_again_and_kept_in_a_file(tmp_path: Path) -> None:
    goal = parse_goal("double throughput with p90 TTFT within 5 %")
    assert "TTFT p90 at most x1.05 of stock" in describe(goal)
    again = parse_goal(sentence(goal))
    assert again.constraints == goal.constraints
    path = tmp_path / "goal.toml"
    path.write_text(dump_goal(goal))
    assert load_goal(path) == goal


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("improve TTFT within 5 %", "limit for another metric"),
        ("double throughput with TTFT within 120 %", "between 0 and 100 %"),
        ("double throughput without lowering TTFT by more than 5 %", "wrong side"),
        ("halve p50 TTFT without raising requests per second by more than 5 %", "wrong side"),
    ],
)
def test_an_allowance_that_makes_no_sense_is_refused(text: str, problem: str) -> None:
    with pytest.raises(GoalError) as refused:
        parse_goal(text)
    assert problem in str(refused.value)
