"""What each kind of event carries. One frozen pydantic model per kind; the ledger file is a trust boundary.

Lanes: `agent` is the brain's own work, `honesty` the plain search it is compared with, `final` the clean relaunch.
Ratios are candidate / base of the goal's metric, oriented so that above 1 is better.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from infra_agent.goal.model import Goal
from infra_agent.ledger.brain_kinds import BrainFellBack as BrainFellBack
from infra_agent.ledger.brain_kinds import FamilySkipped as FamilySkipped
from infra_agent.ledger.brain_kinds import LlmAnswered as LlmAnswered
from infra_agent.ledger.brain_kinds import LlmAsked as LlmAsked
from infra_agent.ledger.brain_kinds import LlmModeChosen as LlmModeChosen
from infra_agent.ledger.brain_kinds import PredictionScored as PredictionScored
from infra_agent.ledger.brain_kinds import ReadingMade as ReadingMade
from infra_agent.ledger.brain_kinds import SearchStarted as SearchStarted
from infra_agent.ledger.payload import EventData as EventData
from infra_agent.stack.model import ParameterValue, Stack

Lane = Literal["agent", "honesty", "final"]
Settings = dict[str, ParameterValue]


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
    brain_settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """What an LLM brain was started with: model, base_url, limits. Never a key or a header's value."""
    seed: int
    budget_s: float
    version: str
    environment: dict[str, str | int | float]
    walls: dict[str, str]
    command: tuple[str, ...] = ()


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


class PhaseStarted(EventData):
    """A stage of the run begins. `elapsed_s` is budget time since the start, pauses between sessions left out."""

    kind: ClassVar[str] = "phase"
    name: Literal["baseline", "tuning", "honesty", "final", "done"]
    elapsed_s: float


class LaunchStarted(EventData):
    """An engine process is about to be started."""

    kind: ClassVar[str] = "launch"
    synced: ClassVar[bool] = True
    id: str
    candidate: str
    arm: Literal["stock", "base", "candidate"]
    purpose: Literal["baseline", "climb", "block", "final", "calibrate"]
    lane: Lane
    settings: Settings
    argv: tuple[str, ...]
    env: dict[str, str] = Field(default_factory=dict)


class LaunchEnded(EventData):
    """An engine process is gone. `outcome` other than `stopped` names how it failed; `last_lines` are its log's."""

    kind: ClassVar[str] = "launch_ended"
    id: str
    outcome: Literal["stopped", "died", "hung", "unhealthy", "wrong_model", "interrupted", "unknown"]
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
    refuting_probe: str = ""


class CandidateProposed(EventData):
    """A candidate: what it changes, on which base, and the risk class the harness derived."""

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


class ActionTaken(EventData):
    """A brain's action that was carried out; one cut off by a crash is asked for again. `turn` counts from 0."""

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
    """A proved candidate became the best. `gate`: why no person had to be asked, or who approved."""

    kind: ClassVar[str] = "accepted"
    synced: ClassVar[bool] = True
    candidate: str
    gate: str
    elapsed_s: float


class WaitingForApproval(EventData):
    """A proved candidate of a gated class. It is not applied; the run goes on without it."""

    kind: ClassVar[str] = "waiting"
    synced: ClassVar[bool] = True
    candidate: str
    risk: str
    reasons: tuple[str, ...]


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
    topic: Literal["not_measured", "degraded", "info", "warning"]
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
        RunStarted, RunResumed, Recovered, PhaseStarted, LaunchStarted, LaunchEnded, ObservationMade, HypothesisStated,
        CandidateProposed, ActionTaken, ActionRefused, ReadingMade, SearchStarted, PredictionScored, FamilySkipped,
        LlmAsked, LlmAnswered, LlmModeChosen, BrainFellBack, Screened, NoiseKnown, BlockMeasured, Looked, VerdictGiven,
        Accepted, WaitingForApproval, HonestyRow, FinalMeasured, Note, Interrupted, RunFinished,
    )
}  # fmt: skip
