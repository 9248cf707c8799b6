"""A verb and an amount to one ratio, candidate / stock.

Covered: "by 30 %" is 1.3 or 0.7; "30 % faster" of a latency is 1 / 1.3; "3x lower" is 1 / 3; "to 70 %" is 0.7.
Not covered: levels with units (`build`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from infra_agent.goal.model import HIGHER_IS_BETTER, Metric
from infra_agent.goal.phrases import Atom

_SETS = {"double": Fraction(2), "triple": Fraction(3), "quadruple": Fraction(4), "halve": Fraction(1, 2)}
_SENSES = {
    "up": "up",
    "more": "up",
    "down": "down",
    "less": "down",
    "faster": "faster",
    "better": "",
    "slower": "slower",
}


class TargetProblem(Exception):
    """The words contradict each other or the metric; the text says how."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio target and the assumptions made on the way."""

    value: Fraction
    notes: tuple[str, ...] = ()


def ratio_of(verbs: Sequence[str], target: Atom | None, metric: Metric, text: str) -> Ratio:
    """The ratio that verbs and amount ask for; TargetProblem when they do not fit."""
    higher = metric in HIGHER_IS_BETTER
    sets = [_SETS[verb] for verb in verbs if verb in _SETS]
    senses = {_SENSES[verb] for verb in verbs if verb in _SENSES}
    if target is not None and target.prep:
        if target.prep in _SETS:
            raise TargetProblem(f"contradiction: '{text}' names two targets")
        senses.add(_SENSES[target.prep])
    if sets and (len(sets) > 1 or target is not None):
        raise TargetProblem(f"contradiction: '{text}' names two targets")
    wanted = {"up", "faster", ""} if higher else {"down", "faster", ""}
    if senses - wanted or (sets and (sets[0] > 1) != higher):
        raise TargetProblem(f"contradiction: '{text}' goes the wrong way for {metric.value}")
    if "faster" in senses and metric is Metric.MEMORY_BYTES:
        raise TargetProblem(f"contradiction: '{text}': memory has no speed")
    if sets:
        return Ratio(sets[0])
    if target is None:
        raise TargetProblem("target missing: say how much (by 30 %, double, below 400 ms, …)")
    if target.number <= 0:
        raise TargetProblem(f"number out of range: '{target.text}' must be above zero")
    ratio = _amount(target, senses, higher=higher, text=text)
    if ratio.value <= 0:
        raise TargetProblem(f"number out of range: '{target.text}' would leave nothing of {metric.value}")
    if (ratio.value > 1) != higher or ratio.value == 1:
        raise TargetProblem(f"contradiction: '{text}' does not improve {metric.value}")
    _check_bound(target, text, higher=higher)
    return ratio


def leaves_nothing(verbs: Sequence[str], target: Atom | None) -> bool:
    """Whether a reduction by 100 % or more is asked for, whatever the metric."""
    if target is None or target.kind != "6" or target.name not in ("pct", "part"):
        return False
    return target.number >= 1 and any(_SENSES.get(word) == "down" for word in (*verbs, target.prep))


def _amount(target: Atom, senses: set[str], *, higher: bool, text: str) -> Ratio:
    number, kind = target.number, target.name
    senses = senses - {""} or senses
    if kind == "ratio" or (kind == "share" and not senses):
        return Ratio(number)
    if kind == "mult":
        return _multiple(number, senses, higher=higher, text=text)
    if not senses:
        raise TargetProblem(f"target unclear: '{text}'; say whether it is to rise or fall by '{target.text}'")
    if higher:
        return Ratio(1 + number)
    if "faster" in senses and len(senses) > 1:
        raise TargetProblem(f"target unclear: '{text}' says both less and faster; choose one")
    if senses == {"faster"}:
        value = 1 / (1 + number)
        return Ratio(value, (f"'{target.text}' faster read as time divided by {float(1 + number):g}",))
    return Ratio(1 - number)


def _multiple(number: Fraction, senses: set[str], *, higher: bool, text: str) -> Ratio:
    if not senses or higher:
        return Ratio(number)
    if number <= 1:
        raise TargetProblem(f"contradiction: '{text}'; a factor above 1 is expected here")
    return Ratio(1 / number)


def _check_bound(target: Atom, text: str, *, higher: bool) -> None:
    """Refuse "at most" for amounts of change and ratios to rise, "at least" for ratios to fall."""
    level = target.name in ("ratio", "share") or (target.name == "mult" and not target.prep and not higher)
    expected = "at_most" if level and not higher else "at_least"
    if target.cmp and target.cmp != expected:
        raise TargetProblem(f"contradiction: '{text}': '{target.text}' bounds the target from the wrong side")
