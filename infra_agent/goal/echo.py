"""The goal in one line, and the assumptions behind it: what a user checks before anything is spent.

Covered: every Goal, from text or file. What the goal leaves to the stack is named as such.
Not covered: the stack's own defaults (the caller fills them in with `model_copy` and echoes again).
"""

from __future__ import annotations

from collections.abc import Mapping

from infra_agent.errors import GoalError
from infra_agent.goal.declared import DeclaredMetric, MetricSpec
from infra_agent.goal.model import AnyMetric, Goal, Limit, Metric, Statistic, higher_is_better
from infra_agent.goal.parse import NONE_DECLARED, read_goal
from infra_agent.goal.say import amount, plain

_LABELS = {
    Metric.OUTPUT_TOK_PER_S: "output tokens/s",
    Metric.TOTAL_TOK_PER_S: "total tokens/s",
    Metric.REQUESTS_PER_S: "requests/s",
    Metric.TTFT_S: "TTFT",
    Metric.TPOT_S: "TPOT",
    Metric.ITL_S: "ITL",
    Metric.E2E_S: "end-to-end latency",
    Metric.GOODPUT_PER_S: "goodput",
    Metric.STARTUP_S: "start-up time",
    Metric.MEMORY_BYTES: "memory",
}


def describe(goal: Goal) -> str:
    """The one-line echo: metric and load, target, constraints, scope when code may change, budget."""
    declared = isinstance(goal.metric, DeclaredMetric)
    named = _named(goal.metric, goal.statistic)
    parts = [named if declared else f"{named} at {_load(goal)}", _target(goal)]
    if goal.slo:
        parts.append("SLO " + ", ".join(_limit(limit) for limit in goal.slo))
    parts += [_limit(limit) for limit in goal.constraints.limits]
    if goal.constraints.answers_unchanged:
        parts.append("answers unchanged (greedy, float32 oracle)")
    if not goal.scope.parameters:
        parts.append("code only" if goal.scope.code else "nothing may change")
    elif goal.scope.code:
        parts.append("parameters and code may change")
    parts.append("the stack's default budget" if goal.budget_s is None else _duration(goal.budget_s))
    caps = goal.budget.model_dump(exclude_none=True)
    parts += [f"at most {amount(name, value)}" for name, value in caps.items()]
    return " · ".join(parts)


def understood(text: str, goal: Goal, declared: Mapping[str, MetricSpec] = NONE_DECLARED) -> list[str]:
    """Assumptions made while reading `text`: defaults, corrected spelling, words with a chosen meaning."""
    if not text.strip():
        return []
    try:
        reading = read_goal(text, declared)
    except GoalError:
        return ["the goal's text is not one that the grammar reads; the fields count"]
    if reading.goal.model_copy(update={"text": goal.text}) != goal:
        return ["the goal's fields differ from its text; the fields count"]
    return list(dict.fromkeys(reading.notes))


def _named(metric: AnyMetric, statistic: Statistic) -> str:
    if isinstance(metric, DeclaredMetric):
        return f"{metric.label} ({metric.meaning})"
    return _LABELS[metric] if statistic is Statistic.VALUE else f"{_LABELS[metric]} {statistic.value}"


def _load(goal: Goal) -> str:
    if goal.load is None:
        return "the stack's default load"
    if goal.load.rate_per_s is not None:
        return f"{plain(goal.load.rate_per_s)} requests/s (Poisson)"
    return f"{goal.load.concurrency} concurrent"


def _target(goal: Goal) -> str:
    word = "at least" if higher_is_better(goal.metric) else "at most"
    value = goal.target.value
    if goal.target.kind == "absolute":
        return f"{word} {_level(goal.metric, value)}"
    return f"{word} x{_factor(value)}"


def _factor(value: float) -> str:
    """Two decimals when they say it all, else four digits, more when the factor is close to 1."""
    if abs(round(value, 2) - value) < 1e-9:
        return f"{value:.2f}"
    short = f"{value:.4g}"
    return short if abs(float(short) - value) <= 0.01 * abs(value - 1) else plain(value)


def _limit(limit: Limit) -> str:
    amount = f"x{limit.value:g} of stock" if limit.kind == "ratio" else _level(limit.metric, limit.value)
    return f"{_named(limit.metric, limit.statistic)} {limit.bound.replace('_', ' ')} {amount}"


def _level(metric: AnyMetric, value: float) -> str:
    if isinstance(metric, DeclaredMetric):
        return metric.level(value)
    if metric in (Metric.OUTPUT_TOK_PER_S, Metric.TOTAL_TOK_PER_S):
        return f"{_short(value)} tok/s"
    if higher_is_better(metric):
        return f"{_short(value)} requests/s"
    if metric is Metric.MEMORY_BYTES:
        unit, size = next(((u, s) for u, s in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if value >= s), ("bytes", 1.0))
        return f"{_short(value / size)} {unit}"
    return _duration(value)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{_short(seconds * 1000)} ms"
    if seconds < 120 and seconds != 60:
        return f"{_short(seconds)} s"
    minutes = seconds / 60
    if minutes >= 60 and minutes % 60 == 0:
        return f"{_short(minutes / 60)} h"
    return f"{_short(minutes)} min"


def _short(value: float) -> str:
    """Six significant digits without an exponent."""
    return plain(float(f"{value:.6g}"))
