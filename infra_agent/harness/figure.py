"""The goal's figure: which quantity of a load observation it is, and which way is better."""

from __future__ import annotations

import math

from infra_agent.goal.model import AnyMetric, Direction, Goal, Limit, Statistic
from probes.base import Observation

SAMPLE_FLOORS = {Statistic.P50: 11, Statistic.P90: 64, Statistic.P95: 130, Statistic.P99: 662}
"""Fewest requests for which a percentile is shown (MLPerf early stopping, c = 0.99, tolerance 0)."""

ROUNDS = 3
"""Rounds of a closed loop: requests per unit of concurrency."""


def quantity_name(metric: AnyMetric, statistic: Statistic) -> str:
    """Name of the quantity: `ttft_s` is the mean, `ttft_p50_s` a percentile."""
    if statistic in (Statistic.VALUE, Statistic.MEAN):
        return metric.value
    return metric.value.removesuffix("_s") + f"_{statistic.value}_s"


def goal_value(goal: Goal, observation: Observation) -> float | None:
    """The goal's figure in an observation, or None if it was withheld, not measured, or zero (it has no ratio)."""
    quantity = observation.quantity(quantity_name(goal.metric, goal.statistic))
    return None if quantity is None or quantity.value <= 0 else quantity.value


def why_no_value(goal: Goal, observation: Observation) -> str:
    """Why an observation holds no usable figure of the goal, in words."""
    name = quantity_name(goal.metric, goal.statistic)
    failed = [f"{check.name}: {check.measured} ({check.limit})" for check in observation.checks if not check.ok]
    if failed:
        return "the figure was withheld: " + "; ".join(failed)
    quantity = observation.quantity(name)
    if quantity is not None:
        return f"{name} is {quantity.value:g}: a ratio to it is not defined"
    withheld = observation.detail.get("withheld", {})
    return f"{name} cannot be measured here: {withheld.get(name, 'this engine or workload does not expose it')}"


def oriented_log(goal: Goal, value: float) -> float:
    """Log of a figure, oriented so that larger is better."""
    sign = 1.0 if goal.direction is Direction.MAXIMISE else -1.0
    return sign * math.log(value)


def target_ratio(goal: Goal, stock_value: float) -> float:
    """The target as an oriented ratio against stock: at least this must be reached."""
    value = goal.target.value if goal.target.kind == "ratio" else goal.target.value / stock_value
    return value if goal.direction is Direction.MAXIMISE else 1.0 / value


def limit_words(limit: Limit) -> str:
    """A constraint's bound in words."""
    bound = "at most" if limit.bound == "at_most" else "at least"
    return f"{bound} {limit.value:.4g}" if limit.kind == "absolute" else f"{bound} x{limit.value:.4g} of the base"


def beyond_log(limit: Limit, value: float | None, base_value: float | None) -> float | None:
    """Log of how far a figure lies beyond a constraint: above 0 it is broken; None where a figure is missing or zero.

    `base_value`: the same figure before the change; needed where the constraint is a ratio.
    """
    reference = 1.0 if limit.kind == "absolute" else base_value
    if value is None or reference is None or value <= 0 or reference <= 0:
        return None
    beyond = math.log(value) - math.log(limit.value * reference)
    return beyond if limit.bound == "at_most" else -beyond


def requests_needed(goal: Goal, configured: int, concurrency: int) -> int:
    """Requests of a window: as configured, or more where the load or a percentile of the goal needs more.

    A closed loop needs several rounds of requests to be at its concurrency most of the time.
    """
    statistics = [goal.statistic, *(limit.statistic for limit in goal.constraints.limits)]
    floors = [SAMPLE_FLOORS.get(statistic, 0) for statistic in statistics]
    return max(configured, ROUNDS * concurrency, *floors)
