"""A Goal as one canonical sentence that parses back to the same Goal.

Covered: every goal that the grammar can produce. Hints of errors are made here.
Not covered: goals that only a file can state (a lower limit on a latency).
"""

from __future__ import annotations

import math
from fractions import Fraction

from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import AnyMetric, Goal, Limit, Metric, Statistic, higher_is_better

NAMES = {
    Metric.OUTPUT_TOK_PER_S: "output tokens per second",
    Metric.TOTAL_TOK_PER_S: "total tokens per second",
    Metric.REQUESTS_PER_S: "requests per second",
    Metric.TTFT_S: "TTFT",
    Metric.TPOT_S: "TPOT",
    Metric.ITL_S: "ITL",
    Metric.E2E_S: "end-to-end latency",
    Metric.GOODPUT_PER_S: "goodput",
    Metric.STARTUP_S: "start-up time",
    Metric.MEMORY_BYTES: "memory",
}
_SINGULAR = {"tokens": "token", "launches": "launch", "turns": "turn"}
_RATE_UNITS = {
    Metric.OUTPUT_TOK_PER_S: "output tok/s",
    Metric.TOTAL_TOK_PER_S: "total tok/s",
    Metric.REQUESTS_PER_S: "requests per second",
    Metric.GOODPUT_PER_S: "requests per second",
}


def plain(value: float) -> str:
    """The shortest decimal text of a float, without an exponent."""
    text = repr(value)
    if "e" not in text and "." in text:
        return text.removesuffix(".0")
    exact = Fraction(text)
    digits = f"{exact.numerator * 10**30 // exact.denominator:031d}"
    return f"{digits[:-30]}.{digits[-30:]}".rstrip("0").rstrip(".")


def name_of(metric: AnyMetric) -> str:
    """What a goal calls the metric."""
    return metric.label if isinstance(metric, DeclaredMetric) else NAMES[metric]


def level(metric: AnyMetric, value: float) -> str:
    """A value with its unit, as the grammar reads it."""
    if isinstance(metric, DeclaredMetric):
        return metric.level(value)
    if higher_is_better(metric):
        return f"{plain(value)} {_RATE_UNITS[metric]}"
    if metric is Metric.MEMORY_BYTES:
        for unit, size in (("GB", 10**9), ("MB", 10**6)):
            if value >= size:
                return f"{_scaled(value, Fraction(1, size))} {unit}"
        return f"{plain(value)} bytes"
    if value < 1:
        return f"{_scaled(value, Fraction(1000))} ms"
    return f"{plain(value)} s"


def amount(name: str, value: float) -> str:
    """An amount of one kind of spending, named as in `goal.budget`, with its unit."""
    if name == "usd":
        return f"{value:.2f} USD" if value >= 0.01 or value == 0 else f"{plain(float(f'{value:.2g}'))} USD"
    if name == "disk_bytes":
        return f"{level(Metric.MEMORY_BYTES, float(f'{value:.3g}'))} of disk"
    if name == "gpu_s":
        return f"{plain(float(f'{value:.6g}'))} GPU seconds"
    number = math.ceil(value)
    return f"{number} {_SINGULAR[name] if number == 1 else name}"


def _scaled(value: float, scale: Fraction) -> str:
    exact = Fraction(repr(value)) * scale
    digits = f"{exact.numerator * 10**30 // exact.denominator:031d}"
    return f"{digits[:-30]}.{digits[-30:]}".rstrip("0").rstrip(".")


def sentence(goal: Goal) -> str:
    """The canonical sentence of a goal."""
    higher = higher_is_better(goal.metric)
    stat = "" if goal.statistic is Statistic.VALUE else f"{goal.statistic.value} "
    words = [_objective(goal, f"{stat}{name_of(goal.metric)}", higher=higher)]
    if goal.load is not None:
        rate = goal.load.rate_per_s
        load = f"{goal.load.concurrency} concurrent requests" if rate is None else f"{plain(rate)} requests per second"
        words[0] += f" at {load}"
    if goal.slo:
        words.append("with an SLO of " + " and ".join(_limit(limit) for limit in goal.slo))
    if goal.constraints.limits:
        words.append("keeping " + " and ".join(_limit(limit) for limit in goal.constraints.limits))
    if goal.constraints.answers_unchanged:
        words.append("without changing the answers")
    if goal.scope.code:
        words.append("code changes allowed")
    if goal.budget_s is not None:
        words.append(f"within {_budget(goal.budget_s)}")
    words += [f"using at most {ceiling}" for ceiling in _ceilings(goal)]
    return ", ".join(words)


def _ceilings(goal: Goal) -> list[str]:
    """Ceilings beside time, as the grammar reads them; turns and GPU seconds can only be said in a file."""
    caps = goal.budget
    found = [f"{plain(caps.usd)} dollars"] if caps.usd is not None else []
    found += [f"{caps.tokens} tokens"] if caps.tokens is not None else []
    found += [f"{caps.launches} launches"] if caps.launches is not None else []
    return found + ([f"{level(Metric.MEMORY_BYTES, caps.disk_bytes)} of disk"] if caps.disk_bytes is not None else [])


def _objective(goal: Goal, name: str, *, higher: bool) -> str:
    if goal.target.kind == "ratio" and goal.target.value in (2, 0.5):
        return f"{'double' if higher else 'halve'} {name}"
    return f"{'raise' if higher else 'cut'} {name} {_target(goal, higher=higher)}"


def _target(goal: Goal, *, higher: bool) -> str:
    value = goal.target.value
    if goal.target.kind == "absolute":
        return f"to {'at least' if higher else 'at most'} {level(goal.metric, value)}"
    percent = round(abs(value - 1) * 100)
    if float(Fraction(100 + percent if higher else 100 - percent, 100)) == value:
        return f"by {percent} %"
    return f"to {plain(value)} times the current value"


def _limit(limit: Limit) -> str:
    stat = "" if limit.statistic is Statistic.VALUE else f"{limit.statistic.value} "
    word = "at most" if limit.bound == "at_most" else "at least"
    if limit.kind == "ratio":
        share = float(abs(Fraction(repr(limit.value)) - 1))
        return f"{stat}{name_of(limit.metric)} within {_scaled(share, Fraction(100))} %"
    return f"{stat}{name_of(limit.metric)} {word} {level(limit.metric, limit.value)}"


def _budget(seconds: float) -> str:
    minutes = seconds / 60
    return f"{int(minutes)} minutes" if minutes == int(minutes) else f"{plain(seconds)} seconds"
