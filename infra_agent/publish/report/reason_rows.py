"""Rows of a report: why a change is believed to work. Hypotheses, predictions, claims, lever families.

A `cause` is a type of its own: it cannot be built without the evidence of applying, reverting and doing nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra_agent.publish.report.rows import End, EstimateRow, Row, Sources


class Predicted(Row):
    """The range stated before anything was measured."""

    rung: str
    metric: str
    low: float
    high: float


class PredictionRow(Row):
    """One stated range beside what was measured on its rung. `basis`: proved, screen or windows; None: not measured."""

    rung: str
    metric: str
    low: float
    high: float
    measured: float | None
    inside: bool | None
    basis: str | None
    event: int


class Measured(Row):
    """What was then measured. `basis`: proved (paired blocks) or screen."""

    ratio: float
    low: float | None
    high: float | None
    basis: Literal["proved", "screen"]
    event: int


class HypothesisRow(Row):
    """A hypothesis, its prediction, and how it ended. `inside` None: nothing measured to compare."""

    id: str
    family: str
    cause: str
    place: str
    refuted_by: str
    refuting_probe: str
    source: str
    predictions: list[PredictionRow]
    predicted: Predicted | None
    measured: Measured | None
    inside: bool | None
    end: End
    candidates: list[str]
    event: int


class RungScore(Row):
    """Hits and mean interval score of the predictions on one rung."""

    rung: str
    scored: int
    inside: int
    interval_score: float


class Predictor(Row):
    """How good the brain's predictions were. Interval score: log ratio, nominal 80 %, lower is better.

    The sums are over the goal's figure on the load rung; `rungs` counts every stated range that was measured.
    """

    brain: str
    scored: int
    inside: int
    hit_rate: float | None
    interval_score: float | None
    rungs: list[RungScore]


class CauseEvidence(Row):
    """What a cause needs, all three."""

    apply: Sources = Field(min_length=1)
    revert: Sources = Field(min_length=1)
    placebo: Sources = Field(min_length=1)


class CauseClaim(Row):
    """Applying this one change alone moved the metric, putting it back undid it, doing nothing did not move it."""

    kind: Literal["cause"] = "cause"
    candidate: str
    hypothesis: str
    statement: str
    estimate: EstimateRow
    evidence: CauseEvidence
    event: int


class AssociationClaim(Row):
    """The two go together; `missing` says what a cause would still need."""

    kind: Literal["association"] = "association"
    candidate: str
    hypothesis: str
    statement: str
    estimate: EstimateRow
    evidence: dict[str, Sources]
    missing: list[str] = Field(min_length=1)
    event: int


Claim = Annotated[CauseClaim | AssociationClaim, Field(discriminator="kind")]


class FamilyRow(Row):
    """A lever family and what became of it. A `skipped` one carries the brain's reason, in the brain's words."""

    family: str
    disposition: Literal[
        "tested/kept", "tested/waiting", "tested/approved", "tested/declined", "tested/rejected", "tested/inconclusive",
        "not_engaged", "crashed", "open", "untested",
        "skipped/ruled_out", "skipped/not_applicable", "skipped/not_worth_it", "not_applicable",
    ]  # fmt: skip
    candidates: list[str]
    reason: str
    evidence: Sources
