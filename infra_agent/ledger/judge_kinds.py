"""Events of the judge: noise, blocks, looks, verdicts, corrected claims, the honesty row and the final relaunch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from infra_agent.ledger.payload import EstimateData, EventData


class NoiseKnown(EventData):
    """The noise floor as known now. `mde_ratio`: smallest gain that `blocks` blocks would show with power 0.8.

    `sd_log` is one launch's. `measured_at` (UTC) is set where a calibration of an earlier day takes part.
    """

    kind: ClassVar[str] = "noise"
    sd_log: float
    mde_ratio: float
    blocks: int
    samples: int
    source: Literal["assumed", "calibrated", "stock arms", "exact"]
    measured_at: str = ""


class BlockMeasured(EventData):
    """One AB/BA block. A block that is not valid carries no values and is measured again."""

    kind: ClassVar[str] = "block"
    candidate: str
    base: str
    stage: Literal["prove", "final", "honesty"]
    index: int
    order: tuple[str, str]
    seed: int
    valid: bool
    base_value: float | None = None
    candidate_value: float | None = None
    base_observation: str = ""
    candidate_observation: str = ""
    reason: str = ""
    wall_s: float = 0.0


class GuardData(BaseModel):
    """A judge.types.Guard as stored: something else that must hold before a gain is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    state: Literal["holds", "broken", "open"]
    p: float | None
    reason: str


class DifferenceData(BaseModel):
    """A judge.types.Difference as stored: candidate minus base in the metric's own unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    value: float
    low: float
    high: float
    n: int
    confidence: float


class Looked(EventData):
    """A planned look at the blocks so far. `basis`: whether figures without stalls were compared.

    Stalled runs of either arm are None where stalls cannot be seen.
    """

    kind: ClassVar[str] = "look"
    candidate: str
    stage: Literal["prove", "final", "honesty"]
    blocks: int
    alpha: float
    estimate: EstimateData
    decision: str | None
    reason: str
    basis: Literal["plain", "stall-free"] = "plain"
    guards: tuple[GuardData, ...] = ()
    difference: DifferenceData | None = None
    base_stalls: int | None = None
    candidate_stalls: int | None = None


class VerdictGiven(EventData):
    """The end of a candidate. `rung` names where it ended; `estimate` is None when nothing valid was measured."""

    kind: ClassVar[str] = "verdict"
    synced: ClassVar[bool] = True
    candidate: str
    decision: Literal["accepted", "rejected", "inconclusive", "invalid"]
    cause: Literal[
        "proved",
        "slower",
        "no_gain",
        "unclear",
        "not_engaged",
        "answers_changed",
        "crashed",
        "infeasible",
        "stalls",
        "out_of_budget",
        "above_ceiling",
    ]
    rung: str
    estimate: EstimateData | None
    reason: str
    evidence: tuple[str, ...] = ()
    elapsed_s: float


class HonestyRow(EventData):
    """What a plain search found in the same screening time, judged by the same judge."""

    kind: ClassVar[str] = "honesty"
    method: str
    agent_screen_s: float
    search_screen_s: float
    trials: int
    best: str | None
    shared_with: str | None = None
    decision: str
    estimate: EstimateData | None
    reason: str


class ClaimData(BaseModel):
    """One claim among all that were tested: its p over the whole sequence of looks, and Holm's for the family."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    candidate: str
    p: float
    p_adjusted: float
    survives: bool


class ClaimsAdjusted(EventData):
    """Every candidate that the judge looked at is in the family, whatever became of it."""

    kind: ClassVar[str] = "claims"
    family: Literal["gain", "stalls"]
    claims: tuple[ClaimData, ...]


class FinalMeasured(EventData):
    """The winner relaunched clean on fresh seeds, stock beside it."""

    kind: ClassVar[str] = "final"
    candidate: str
    arms: tuple[str, ...]
    search_seeds: tuple[int, ...]
    seeds: tuple[int, ...]
    estimate: EstimateData
    stock_value: float
    candidate_value: float
    difference: DifferenceData | None = None
    guards: tuple[GuardData, ...] = ()
