"""Whether equal runs give equal figures: what a stack declares deterministic is asserted, never believed.

Two runs of one configuration on one seed must agree to the last bit. As long as all of them do, one pair of runs says
what blocks would say; as soon as one pair differs the metric is measured like any other.

Covered: read from the ledger, so that a resumed run knows it too; candidates that vary although stock does not.
Not covered: figures that repeat by luck (a coarse clock): a metric of time is not to be declared deterministic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import Goal
from infra_agent.harness.memory import figure_in
from infra_agent.ledger.state import RunState


def may_be_exact(goal: Goal) -> bool:
    """Whether the goal's metric, and every metric that it limits, is declared deterministic."""
    metrics = (goal.metric, *(limit.metric for limit in goal.constraints.limits))
    return all(isinstance(metric, DeclaredMetric) and metric.kind == "deterministic" for metric in metrics)


def is_exact(state: RunState, goal: Goal) -> bool:
    """Whether figures are compared exactly: declared deterministic, repeated at least once, and never different."""
    if not may_be_exact(goal):
        return False
    figures = _by_run(state, goal)
    repeated = any(len(values) > 1 for values in figures.values())
    return repeated and not different(state, goal)


def different(state: RunState, goal: Goal) -> str:
    """Which repeat gave another figure; empty when none did."""
    for (candidate, place), values in _by_run(state, goal).items():
        if len(set(values)) > 1:
            return f"{candidate}, {place}: {values[0]!r} and {next(v for v in values if v != values[0])!r}"
    return ""


def _by_run(state: RunState, goal: Goal) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key, value in _figures(state, goal):
        found[key].append(value)
    return found


def _figures(state: RunState, goal: Goal) -> Iterator[tuple[tuple[str, str], float]]:
    for made in state.standing:
        value = figure_in(made, goal)
        place = made.observation.get("where", {}).get("input")
        if value is not None and isinstance(place, str):
            yield (made.candidate, place), value
