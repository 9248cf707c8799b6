"""What the judge returns. Ratios are candidate / base of the goal's metric, oriented so that above 1 is better."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
class Look:
    """One planned look at the data: the decision so far, or None to go on measuring."""

    blocks: int
    alpha: float
    estimate: Estimate
    decision: Decision | None
    reason: str
