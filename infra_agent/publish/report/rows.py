"""Rows of a report: measured figures, candidates and their ends (`reason_rows` has hypotheses and claims).

Covered: what each row holds and what may be absent.
Sources are observation ids ("O12") or "event:N", N being the ledger's sequence number.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from infra_agent.stack.model import ParameterValue

Settings = dict[str, ParameterValue]
Sources = list[str]
End = Literal[
    "kept", "waiting", "approved", "declined", "rejected", "inconclusive", "crashed", "not_engaged", "open", "untested",
]  # fmt: skip


class Row(BaseModel):
    """Base of all parts of a report."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EstimateRow(Row):
    """A ratio with its interval; above 1 is better. `p` is None where no test applies."""

    ratio: float
    low: float | None
    high: float | None
    p: float | None
    n: int
    confidence: float
    method: str


class Figure(Row):
    """One measured value with a 95 % interval over fresh launches (None for a single one)."""

    value: float
    low: float | None
    high: float | None
    n: int
    sources: Sources = Field(min_length=1)


class MetricRow(Row):
    """A metric of one configuration."""

    name: str
    label: str
    unit: str
    figure: Figure


class RatioRow(Row):
    """best / stock as it is (not oriented). `method` says how the interval came about."""

    ratio: float
    low: float | None
    high: float | None
    n: int
    method: str
    sources: Sources


class BeforeAfter(Row):
    """A metric measured in both configurations. `better` is None when the interval holds 1 or there is none."""

    name: str
    label: str
    unit: str
    is_goal: bool
    windows: Literal["final", "search"]
    stock: Figure
    best: Figure
    change: RatioRow | None
    better: bool | None


class LaunchRow(Row):
    """A command line as it was started."""

    id: str
    argv: list[str]
    env: dict[str, str]
    event: int


class Configuration(Row):
    """Stock or best: settings, command line and metrics."""

    candidate: str
    title: str
    settings: Settings
    launch: LaunchRow | None
    metrics: list[MetricRow]


class ChangeRow(Row):
    """One launch parameter set. `before` None: it was not set."""

    parameter: str
    flag: str
    value: ParameterValue | None
    before: ParameterValue | None


class PatchRow(Row):
    """A candidate's own code change. `diff` is canonical and text of a brain: it is only ever shown as text.

    `artifact` is the file of the run that holds it; `apply` and `undo` are shell commands, empty where there are
    several sources. `notes` say what of the diff as it was sent was corrected.
    """

    diff: str
    digest: str
    artifact: str
    files: list[str]
    added: int
    removed: int
    notes: list[str]
    apply: str
    undo: str


class Undo(Row):
    """How to put it back."""

    text: str
    command: str


class PersonRow(Row):
    """What one person decided, signed with the key of this fingerprint. `event` None: not yet taken in by the run."""

    candidate: str
    decision: Literal["approve", "reject", "request_changes"]
    reviewer: str
    fingerprint: str
    time: str
    expires: str
    reason: str
    request: str
    event: int | None


class Corrected(Row):
    """A claim among all that were tested (Holm): its p over all looks, the adjusted p, how many were tested."""

    p: float
    p_adjusted: float
    tested: int
    survives: bool
    event: int


class StallsRow(Row):
    """Stalled runs, of as many runs of each arm. `p`: that the candidate does not stall more; `corrected` is Holm's."""

    base: int
    candidate: int
    runs: int
    p: float | None
    corrected: Corrected | None
    compared: Literal["plain", "stall-free"]
    event: int


class DifferenceRow(Row):
    """Candidate minus stock in the metric's own unit."""

    value: float
    low: float
    high: float
    n: int
    confidence: float


class GuardRow(Row):
    """A constraint, or stalls: whether it holds on these blocks."""

    name: str
    state: Literal["holds", "broken", "open"]
    p: float | None
    reason: str


class AcceptedRow(Row):
    """A proved and applied candidate. `final` is the fresh-seed estimate, None unless it is the winner relaunched.

    `corrected` is None where the run has not come to its end. `approvals`: who approved it; empty for a class that
    needs nobody.
    """

    candidate: str
    title: str
    changes: list[ChangeRow]
    patch: PatchRow | None
    estimate: EstimateRow | None
    final: EstimateRow | None
    difference: DifferenceRow | None
    corrected: Corrected | None
    stalls: StallsRow | None
    risk: str
    gate: str
    approvals: list[PersonRow]
    accepted_after_s: float
    undo: Undo
    event: int
    evidence: Sources


class DecisionNeeded(Row):
    """A proved candidate that waits for a person. `request`: digest of all that an approval stands for."""

    candidate: str
    title: str
    risk: str
    reasons: list[str]
    claim: str
    changes: list[ChangeRow]
    patch: PatchRow | None
    estimate: EstimateRow | None
    evidence: Sources
    request: str
    command: str
    approve: str
    event: int


class VerdictRow(Row):
    """How a candidate ended. At least one evidence id stands beside each."""

    candidate: str
    title: str
    lane: str
    decision: Literal["accepted", "rejected", "inconclusive", "invalid"]
    cause: str
    rung: str
    estimate: EstimateRow | None
    p: float | None
    reason: str
    evidence: Sources = Field(min_length=1)
    event: int


class BlockRow(Row):
    """One paired block; values only when valid."""

    stage: str
    index: int
    order: list[str]
    seed: int
    valid: bool
    base_value: float | None
    candidate_value: float | None
    observations: Sources
    reason: str
    wall_s: float
    event: int


class ScreenRow(Row):
    """The short comparison before proving: it ranks, it claims nothing."""

    estimate: EstimateRow
    outcome: str
    reason: str
    wall_s: float
    event: int


class CandidateRow(Row):
    """A proposal and all that happened to it. `verdict` None: it has not ended.

    `patch` is its own code change, `patches` the digests of all that it carries, its base's first.
    """

    id: str
    title: str
    lane: str
    hypothesis: str
    family: str
    base: str
    changes: list[ChangeRow]
    patch: PatchRow | None
    patches: list[str]
    settings: Settings
    digest: str
    risk: str
    risk_reasons: list[str]
    verdict: VerdictRow | None
    end: End
    evidence: Sources
    screen: ScreenRow | None
    blocks: list[BlockRow]
    event: int
