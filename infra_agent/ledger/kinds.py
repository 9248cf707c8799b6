"""What each kind of event carries. One frozen pydantic model per kind; the ledger file is a trust boundary.

Lanes: `agent` is the brain's own work, `honesty` the plain search it is compared with, `final` the clean relaunch.
Ratios are candidate / base of the goal's metric, oriented so that above 1 is better.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from infra_agent.goal.model import Goal
from infra_agent.ledger.code_kinds import PatchMade, SourceTaken
from infra_agent.review.approval import SignedGrant
from infra_agent.stack.model import ParameterValue, Stack

Lane = Literal["agent", "honesty", "final"]
Settings = dict[str, ParameterValue]
SpendKind = Literal["tokens_in", "tokens_out", "usd", "launches", "disk_bytes", "gpu_s"]
"""What is budgeted beside wall clock (counted by time stamps) and turns (counted by actions)."""
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EventData(BaseModel):
    """Base of all event payloads. `synced` kinds are flushed to disk before the program goes on.

    `ended_by`: for an intent, the kinds that end it; they carry the same `id` or `turn`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str]
    synced: ClassVar[bool] = False
    ended_by: ClassVar[tuple[str, ...]] = ()


class EstimateData(BaseModel):
    """A judge.types.Estimate as stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ratio: float
    low: float
    high: float
    p: float | None
    n: int
    confidence: float
    method: str


class RunStarted(EventData):
    """The run's contract: goal, stack, brain, seed and machine, fixed before anything is spent."""

    kind: ClassVar[str] = "run_started"
    synced: ClassVar[bool] = True
    run_id: str
    goal: Goal
    stack: Stack
    stack_digest: str
    workload_sha256: str
    brain: str
    brain_note: str = ""
    seed: int
    budget_s: float
    version: str
    environment: dict[str, str | int | float]
    walls: dict[str, str]
    command: tuple[str, ...] = ()
    price: dict[str, NotNegative] = Field(default_factory=dict)
    """USD per million tokens as the user gave it, `input_usd` and `output_usd`; empty when nobody did."""
    stack_source: str = ""
    """Where the stack was read from: its secrets are not kept here, and its `[review]` must still admit a reviewer."""
    reviewer_key: str = ""
    """Public key line of the user's own reviewer key, if there was one."""


class RunResumed(EventData):
    """The run goes on in a new process. `spent_s`: budget used before."""

    kind: ClassVar[str] = "run_resumed"
    pid: int
    spent_s: float


class Recovered(EventData):
    """A torn last record was cut off and kept beside the ledger."""

    kind: ClassVar[str] = "recovered"
    dropped_bytes: int
    kept_as: str


class WorkspaceReady(EventData):
    """The run has its own copy of the sources: code may be changed. `tree` is the digest of the unpatched copy."""

    kind: ClassVar[str] = "workspace"
    synced: ClassVar[bool] = True
    sources: tuple[SourceTaken, ...]
    tree: str
    numeric: bool
    wall_s: float


class PhaseStarted(EventData):
    """A stage of the run begins. `elapsed_s` is budget time since the start, pauses between sessions left out."""

    kind: ClassVar[str] = "phase"
    name: Literal["baseline", "tuning", "honesty", "final", "done"]
    elapsed_s: float


class LaunchStarted(EventData):
    """An engine process is about to be started."""

    kind: ClassVar[str] = "launch"
    synced: ClassVar[bool] = True
    ended_by: ClassVar[tuple[str, ...]] = ("launch_ended",)
    id: str
    candidate: str
    arm: Literal["stock", "base", "candidate"]
    purpose: Literal["baseline", "climb", "block", "final", "calibrate", "engagement"]
    lane: Lane
    settings: Settings
    argv: tuple[str, ...]
    env: dict[str, str] = Field(default_factory=dict)
    tree: str = ""
    """Digest of the sources that it ran on; empty when they were not the run's own."""


class LaunchEnded(EventData):
    """An engine process is gone. `outcome` other than `stopped` names how it failed; `last_lines` are its log's."""

    kind: ClassVar[str] = "launch_ended"
    id: str
    outcome: Literal[
        "stopped", "died", "hung", "unhealthy", "wrong_model", "over_memory", "over_processes", "over_disk",
        "interrupted", "unknown",
    ]  # fmt: skip
    ready_s: float | None
    wall_s: float
    log_artifact: str = ""
    last_lines: tuple[str, ...] = ()
    message: str = ""


class ObservationMade(EventData):
    """One probe's result, bound to a candidate. `observation` is probes.base.Observation as JSON."""

    kind: ClassVar[str] = "observation"
    id: str
    candidate: str
    lane: Lane
    purpose: Literal["baseline", "engagement", "answers", "screen", "block", "final", "measure"]
    launch: str = ""
    observation: dict[str, Any]


class HypothesisStated(EventData):
    """A cause with its predictions, stored before it is tested."""

    kind: ClassVar[str] = "hypothesis"
    id: str
    family: str
    cause: str
    place: str
    refuted_by: str
    predictions: tuple[dict[str, Any], ...]
    source: str = ""


class CandidateProposed(EventData):
    """A candidate: what it changes, on which base, and the risk class the harness derived.

    `patch` is its own code change. `patches` are the digests of all that it carries, its base's first; `tree` is the
    digest of the sources with all of them. Without code changes the three are empty.
    """

    kind: ClassVar[str] = "candidate"
    id: str
    title: str
    hypothesis: str
    base: str
    changes: tuple[dict[str, Any], ...]
    settings: Settings
    digest: str
    risk: str
    risk_reasons: tuple[str, ...]
    family: str
    lane: Lane
    patch: PatchMade | None = None
    patches: tuple[str, ...] = ()
    tree: str = ""


class ActionBegun(EventData):
    """A brain's action is about to be carried out. Its end is the `action` or `action_refused` of the same turn."""

    kind: ClassVar[str] = "action_begun"
    synced: ClassVar[bool] = True
    ended_by: ClassVar[tuple[str, ...]] = ("action", "action_refused")
    turn: int
    action: dict[str, Any]


class ActionTaken(EventData):
    """A brain's action that was carried out; one cut off by a crash is gone on with. `turn` counts from 0."""

    kind: ClassVar[str] = "action"
    turn: int
    action: dict[str, Any]


class ActionRefused(EventData):
    """A brain asked for something that is not allowed or not well formed. Charged, not executed."""

    kind: ClassVar[str] = "action_refused"
    turn: int
    action: str
    error: str


class Screened(EventData):
    """A candidate climbed the ladder to the screen. Ranking only; no claim follows from `promote`."""

    kind: ClassVar[str] = "screened"
    candidate: str
    against: str
    estimate: EstimateData
    outcome: Literal["promote", "reject", "unclear"]
    reason: str
    wall_s: float


class NoiseKnown(EventData):
    """The noise floor as known now. `mde_ratio`: smallest gain that `blocks` blocks would show with power 0.8."""

    kind: ClassVar[str] = "noise"
    sd_log: float
    mde_ratio: float
    blocks: int
    samples: int
    source: Literal["assumed", "calibrated", "stock arms"]


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


class Looked(EventData):
    """A planned look at the blocks so far."""

    kind: ClassVar[str] = "look"
    candidate: str
    stage: Literal["prove", "final", "honesty"]
    blocks: int
    alpha: float
    estimate: EstimateData
    decision: str | None
    reason: str


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
        "out_of_budget",
        "above_ceiling",
    ]
    rung: str
    estimate: EstimateData | None
    reason: str
    evidence: tuple[str, ...] = ()
    elapsed_s: float


class Accepted(EventData):
    """A proved candidate became the best. `gate`: why no person had to be asked, or who approved.

    `request`: the approved request, for a candidate of a class that waits for a person.
    """

    kind: ClassVar[str] = "accepted"
    synced: ClassVar[bool] = True
    candidate: str
    gate: str
    elapsed_s: float
    request: str = ""


class WaitingForApproval(EventData):
    """A proved candidate of a gated class. It is not applied; the run goes on without it.

    `request`: id of the approval request; `operands`: sha256 of the files that the run reads; `budget_s`: seconds that
    going on may still spend. Ledgers of version 0.1.0 have none of the three.
    """

    kind: ClassVar[str] = "waiting"
    synced: ClassVar[bool] = True
    candidate: str
    risk: str
    reasons: tuple[str, ...]
    request: str = ""
    operands: dict[str, str] = Field(default_factory=dict)
    budget_s: float = 0.0


class Approved(EventData):
    """As many persons as needed have signed. The grants are spent with this event and with nothing else."""

    kind: ClassVar[str] = "approved"
    synced: ClassVar[bool] = True
    candidate: str
    request: str
    grants: tuple[SignedGrant, ...] = Field(min_length=1)


class Declined(EventData):
    """A person said no: the candidate is closed. With `request_changes` the brain may go on with other proposals."""

    kind: ClassVar[str] = "declined"
    synced: ClassVar[bool] = True
    candidate: str
    request: str
    decision: Literal["reject", "request_changes"]
    reason: str
    grant: SignedGrant


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


class Note(EventData):
    """A line worth keeping: what was not measured, what degraded, what a person should know."""

    kind: ClassVar[str] = "note"
    topic: Literal["not_measured", "degraded", "info", "warning", "stalled"]
    text: str


class BudgetReserved(EventData):
    """Set aside before it is spent; on the disk before anything is done. It counts in full until it is settled."""

    kind: ClassVar[str] = "budget_reserved"
    synced: ClassVar[bool] = True
    id: str
    what: str
    amounts: dict[SpendKind, NotNegative]


class BudgetSettled(EventData):
    """What a reservation really used: failures, cut streams and unreadable answers are charged like any other."""

    kind: ClassVar[str] = "budget_settled"
    id: str
    amounts: dict[SpendKind, NotNegative]
    outcome: str = ""


class Interrupted(EventData):
    """The user stopped the run; it can be resumed."""

    kind: ClassVar[str] = "interrupted"
    reason: str


class RunFinished(EventData):
    """The run's end: verdict in a sentence, and the exit code."""

    kind: ClassVar[str] = "finished"
    synced: ClassVar[bool] = True
    outcome: Literal["met", "not_met", "waiting", "budget_spent", "failed", "cancelled"]
    exit_code: int
    sentence: str
    elapsed_s: float


KINDS: dict[str, type[EventData]] = {
    model.kind: model
    for model in (
        RunStarted, RunResumed, Recovered, WorkspaceReady, PhaseStarted, LaunchStarted, LaunchEnded, ObservationMade,
        HypothesisStated, CandidateProposed, ActionBegun, ActionTaken, ActionRefused, Screened, NoiseKnown,
        BlockMeasured, Looked, VerdictGiven, Accepted, WaitingForApproval, Approved, Declined, HonestyRow,
        FinalMeasured, Note, BudgetReserved, BudgetSettled, Interrupted, RunFinished,
    )
}  # fmt: skip
