"""A cause is a type: it exists only where changing one thing moved the effect, putting it back undid it, and a placebo
of the same kind did nothing.

`establish` is the one way to a `Cause`; everything else is a `Suspicion` with the reason why it is no more than that.
An observation that says `cause` among its signals must carry the whole record (`probes.base` refuses it otherwise).
Samples are the measured figures of interleaved blocks; the test is exact and two-sided (permutations of the two
samples).

Covered: one change at a time, effects in either direction, positive figures. Not covered: causes that need two changes
together (none of the two moves anything alone, and both stay suspicions).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

from probes.base import Cost, Observation, Quantity, Rung, Verdict, Where

MIN_SAMPLES = 4
ALPHA = 0.05
LEAST = 0.05
PLACEBO_PART = 0.25
BACK_PART = 0.5
_MOST_EXACT = 12
_KEY = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Samples under one change. `change` says what was changed in words, `digest` which change exactly."""

    change: str
    samples: tuple[float, ...]
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """The four arms that a cause needs. An arm that was not run is None, and then there is no cause."""

    metric: str
    unit: str
    base: Trial
    intervention: Trial
    reversal: Trial | None = None
    placebo: Trial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """Something that goes with the effect, and why it is not (yet) its cause."""

    name: str
    where: Where
    verdict: Literal["refuted", "undecided"]
    reason: str


class Cause:
    """An established cause; `establish` alone makes one."""

    __slots__ = ("effect", "name", "trials", "where")

    def __init__(self, name: str, where: Where, trials: Trials, effect: float, *, key: object = None) -> None:
        if key is not _KEY:
            raise TypeError("a Cause is established by experiments: use probes.causes.establish")
        self.name = name
        self.where = where
        self.trials = trials
        self.effect = effect

    def record(self) -> dict[str, Any]:
        """What an observation carries beside the word."""
        return {
            "name": self.name, "effect": self.effect, **asdict(self.trials),
        }  # fmt: skip


def establish(
    name: str, where: Where, trials: Trials, *, least: float = LEAST, alpha: float = ALPHA
) -> Cause | Suspicion:
    """A cause, or why not. `least`: the smallest relative effect that counts."""

    def no(verdict: Literal["refuted", "undecided"], reason: str) -> Suspicion:
        return Suspicion(name=name, where=where, verdict=verdict, reason=reason)

    reason = _unusable(trials)
    if reason:
        return no("undecided", reason)
    base, changed = trials.base, trials.intervention
    assert trials.reversal is not None
    assert trials.placebo is not None
    effect = _shift(base, changed)
    if abs(effect) < least:
        return no("refuted", f"changing it moves {trials.metric} by {effect:+.1%}: less than {least:.0%}")
    if p_value(base.samples, changed.samples) > alpha:
        return no(
            "undecided", f"{effect:+.1%} is within the noise of {len(base.samples)} and {len(changed.samples)} samples"
        )
    back = _shift(base, trials.reversal)
    if abs(back) > BACK_PART * abs(effect):
        return no("refuted", f"putting it back does not undo it: still {back:+.1%} away after {effect:+.1%}")
    if p_value(changed.samples, trials.reversal.samples) > alpha:
        return no("undecided", "putting it back cannot be told from leaving it changed")
    placebo = _shift(base, trials.placebo)
    if abs(placebo) > max(PLACEBO_PART * abs(effect), least):
        sure = p_value(base.samples, trials.placebo.samples) <= alpha
        moves = "moves it too" if sure else "may move it too"
        return no(
            "refuted" if sure else "undecided",
            f"a change that does nothing ({trials.placebo.change}) {moves}: {placebo:+.1%}",
        )
    return Cause(name, where, trials, effect, key=_KEY)


def _unusable(trials: Trials) -> str:
    arms = {"intervention": trials.intervention, "reversal": trials.reversal, "placebo": trials.placebo}
    for word, arm in arms.items():
        if arm is None:
            return f"no {word} was recorded"
    for word, arm in {"base": trials.base, **arms}.items():
        assert arm is not None
        if len(arm.samples) < MIN_SAMPLES:
            return f"the {word} has {len(arm.samples)} samples; at least {MIN_SAMPLES} are needed"
        if not all(math.isfinite(value) and value > 0 for value in arm.samples):
            return f"the {word} has a figure that is not positive and finite"
    assert trials.reversal is not None
    assert trials.placebo is not None
    if trials.intervention.change in (trials.placebo.change, trials.base.change):
        return "the intervention and the placebo are the same change"
    return ""


def _shift(base: Trial, other: Trial) -> float:
    return statistics.median(other.samples) / statistics.median(base.samples) - 1.0


def p_value(left: Sequence[float], right: Sequence[float]) -> float:
    """Two-sided rank test: exact permutations for small samples, the normal approximation above."""
    pooled = [*left, *right]
    ranks = _ranks(pooled)
    mine = sum(ranks[: len(left)])
    mean = len(left) * (len(pooled) + 1) / 2
    distance = abs(mine - mean)
    if len(pooled) <= 2 * _MOST_EXACT:
        return _exact(ranks, len(left), mean, distance)
    spread = math.sqrt(len(left) * len(right) * (len(pooled) + 1) / 12)
    return math.erfc(max(0.0, distance - 0.5) / spread / math.sqrt(2))


def _exact(ranks: Sequence[float], size: int, mean: float, distance: float) -> float:
    if math.comb(len(ranks), size) > 200_000:
        spread = math.sqrt(size * (len(ranks) - size) * (len(ranks) + 1) / 12)
        return math.erfc(max(0.0, distance - 0.5) / spread / math.sqrt(2))
    sums = [sum(chosen) for chosen in combinations(ranks, size)]
    return sum(abs(total - mean) >= distance - 1e-9 for total in sums) / len(sums)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, ties at their mean."""
    ordered = sorted(values)
    first: Mapping[float, int] = {value: ordered.index(value) for value in set(values)}
    return [first[value] + (ordered.count(value) + 1) / 2 for value in values]


def observe(found: Cause | Suspicion, *, probe: str, rung: Rung, wall_s: float) -> Observation:
    """The observation of an experiment on one suspect. Only an established cause is called one."""
    if isinstance(found, Suspicion):
        verdict = Verdict.PASS if found.verdict == "refuted" else Verdict.INCONCLUSIVE
        return Observation(
            probe=probe, rung=rung, verdict=verdict,
            summary=f"{found.name} is not shown to be the cause: {found.reason}", where=found.where,
            cost=Cost(wall_s=wall_s), signals={f"suspect.{found.name}": found.verdict},
        )  # fmt: skip
    trials = found.trials
    return Observation(
        probe=probe, rung=rung, verdict=Verdict.FAIL,
        summary=f"{found.name} is the cause: changing it moves {trials.metric} by {found.effect:+.1%}, "
        "putting it back undoes it",
        where=found.where, cost=Cost(wall_s=wall_s), signals={"cause": found.name}, detail={"cause": found.record()},
        quantities=(
            Quantity(name=f"{trials.metric}_shift", value=found.effect, unit="1", n=len(trials.intervention.samples)),
        ),
    )  # fmt: skip
