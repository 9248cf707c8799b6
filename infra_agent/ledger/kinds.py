"""What each kind of event carries. One frozen pydantic model per kind; the ledger file is a trust boundary.

Lanes: `agent` is the brain's own work, `honesty` the plain search it is compared with, `final` the clean relaunch.
Ratios are candidate / base of the goal's metric, oriented so that above 1 is better.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from infra_agent.goal.model import Goal
from infra_agent.ledger.brain_kinds import BrainFellBack as BrainFellBack
from infra_agent.ledger.brain_kinds import FamilySkipped as FamilySkipped
from infra_agent.ledger.brain_kinds import LlmAnswered as LlmAnswered
from infra_agent.ledger.brain_kinds import LlmAsked as LlmAsked
from infra_agent.ledger.brain_kinds import LlmModeChosen as LlmModeChosen
from infra_agent.ledger.brain_kinds import PredictionScored as PredictionScored
from infra_agent.ledger.brain_kinds import ReadingMade as ReadingMade
from infra_agent.ledger.brain_kinds import SearchStarted as SearchStarted
from infra_agent.ledger.code_kinds import PatchMade, SourceTaken
from infra_agent.ledger.gate_kinds import Accepted as Accepted
from infra_agent.ledger.gate_kinds import Approved as Approved
from infra_agent.ledger.gate_kinds import Declined as Declined
from infra_agent.ledger.gate_kinds import WaitingForApproval as WaitingForApproval
from infra_agent.ledger.judge_kinds import BlockMeasured as BlockMeasured
from infra_agent.ledger.judge_kinds import ClaimData as ClaimData
from infra_agent.ledger.judge_kinds import ClaimsAdjusted as ClaimsAdjusted
from infra_agent.ledger.judge_kinds import DifferenceData as DifferenceData
from infra_agent.ledger.judge_kinds import FinalMeasured as FinalMeasured
from infra_agent.ledger.judge_kinds import GuardData as GuardData
from infra_agent.ledger.judge_kinds import HonestyRow as HonestyRow
from infra_agent.ledger.judge_kinds import Looked as Looked
from infra_agent.ledger.judge_kinds import NoiseKnown as NoiseKnown
from infra_agent.ledger.judge_kinds import VerdictGiven as VerdictGiven
from infra_agent.ledger.payload import EstimateData as EstimateData
from infra_agent.ledger.payload import EventData as EventData
from infra_agent.ledger.payload import Lane as Lane
from infra_agent.ledger.payload import NotNegative as NotNegative
from infra_agent.ledger.payload import Settings as Settings
from infra_agent.ledger.payload import SpendKind as SpendKind
from infra_agent.ledger.spending_kinds import BudgetReserved as BudgetReserved
from infra_agent.ledger.spending_kinds import BudgetSettled as BudgetSettled
from infra_agent.stack.model import Stack


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
    brain_settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """What an LLM brain was started with: model, base_url, limits. Never a key or a header's value."""
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
    kernels: bool = False
    """Whether a file that may be patched is one of kernels."""
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
    purpose: Literal["baseline", "engagement", "answers", "screen", "block", "final", "measure", "probe"]
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
    refuting_probe: str = ""


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
    result: str = ""


class ActionRefused(EventData):
    """A brain asked for something that is not allowed or not well formed. Charged, not executed."""

    kind: ClassVar[str] = "action_refused"
    turn: int
    action: str
    error: str
    code: str = "refused"


class Screened(EventData):
    """A candidate climbed the ladder to the screen. Ranking only; no claim follows from `promote`."""

    kind: ClassVar[str] = "screened"
    candidate: str
    against: str
    estimate: EstimateData
    outcome: Literal["promote", "reject", "unclear"]
    reason: str
    wall_s: float


class Note(EventData):
    """A line worth keeping: what was not measured, what degraded, what a person should know."""

    kind: ClassVar[str] = "note"
    topic: Literal["not_measured", "degraded", "info", "warning", "stalled"]
    text: str


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
        HypothesisStated, CandidateProposed, ActionBegun, ActionTaken, ActionRefused, ReadingMade, SearchStarted,
        PredictionScored, FamilySkipped, LlmAsked, LlmAnswered, LlmModeChosen, BrainFellBack, Screened, NoiseKnown,
        BlockMeasured, Looked, VerdictGiven, Accepted, WaitingForApproval, Approved, Declined, HonestyRow,
        ClaimsAdjusted, FinalMeasured, Note, BudgetReserved, BudgetSettled, Interrupted, RunFinished,
    )
}  # fmt: skip
