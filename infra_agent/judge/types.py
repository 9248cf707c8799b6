"""What the judge returns. Ratios are candidate / base of the goal's metric, oriented so that above 1 is better."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Decision(StrEnum):
    """The judge's verdict on a candidate."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"


class Arm(StrEnum):
    """The two sides of one block."""

    BASE = "base"
    CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One paired block: both arms freshly launched, same seed, in the planned order."""

    index: int
    order: tuple[Arm, Arm]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A ratio with its interval. `p` is None where no test applies. `method` names the rule in words."""

    ratio: float
    low: float
    high: float
    p: float | None
    n: int
    confidence: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Candidate minus base in the metric's own unit, not oriented."""

    value: float
    low: float
    high: float
    n: int
    confidence: float


Cause = Literal["proved", "slower", "no_gain", "unclear", "infeasible", "stalls"]
"""Why a look decided as it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Something else that must hold before a gain is accepted, judged on the same blocks.

    `open`: neither shown to hold nor to be broken. `cause` names the end of a candidate that breaks it.
    """

    name: str
    state: Literal["holds", "broken", "open"]
    reason: str
    cause: Cause
    p: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One planned look at the data: the decision so far and its cause, or None to go on measuring."""

    blocks: int
    alpha: float
    estimate: Estimate
    decision: Decision | None
    reason: str
    cause: Cause | None = None
    guards: tuple[Guard, ...] = ()
