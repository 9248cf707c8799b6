"""RunState: what a ledger says when read from the first event to the last. Built only by `ledger.fold`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from infra_agent.ledger import kinds as k
from infra_agent.ledger.history import History, Register
from infra_agent.ledger.spending import Spending


class Evidence(NamedTuple):
    """The ledger's head when a gate opened: all that a person can have seen."""

    seq: int
    hash: str


class Stamped(NamedTuple):
    """An event's sequence number, UTC time stamp and payload."""

    seq: int
    ts: str
    data: k.EventData


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateState:
    """Everything known of one candidate, in the order in which it happened."""

    proposed: k.CandidateProposed
    seq: int
    observations: tuple[str, ...] = ()
    screened: k.Screened | None = None
    blocks: tuple[k.BlockMeasured, ...] = ()
    looks: tuple[k.Looked, ...] = ()
    verdict: k.VerdictGiven | None = None
    verdict_seq: int | None = None
    accepted: k.Accepted | None = None
    waiting: k.WaitingForApproval | None = None
    evidence: Evidence | None = None
    """The head before `waiting`; None as long as no gate has opened."""
    approved: k.Approved | None = None
    declined: k.Declined | None = None

    @property
    def undecided(self) -> bool:
        """Whether a person still has to decide."""
        return self.waiting is not None and not (self.approved or self.declined or self.accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCall:
    """One question to a language model. `answered` None: it was asked and the answer never came."""

    asked: k.LlmAsked
    seq: int
    answered: k.LlmAnswered | None = None
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The only run state. `best` is "stock" or the id of the last accepted candidate."""

    started: k.RunStarted
    started_ts: str
    events: History[Stamped] = field(default_factory=History)
    head_seq: int = 0
    head_hash: str = ""
    phase: str = ""
    observations: Mapping[str, k.ObservationMade] = field(default_factory=Register)
    hypotheses: Mapping[str, k.HypothesisStated] = field(default_factory=Register)
    candidates: Mapping[str, CandidateState] = field(default_factory=dict)
    launches: Mapping[str, k.LaunchStarted] = field(default_factory=Register)
    launches_ended: Mapping[str, k.LaunchEnded] = field(default_factory=Register)
    unsettled: tuple[str, ...] = ()
    """Launches whose result, a screen, block or verdict, is not stored yet."""
    void: frozenset[str] = frozenset()
    """Launches whose session ended before their result was stored: they are made again, and nothing of them counts."""
    taken: tuple[k.ActionTaken, ...] = ()
    refused: tuple[k.ActionRefused, ...] = ()
    readings: tuple[k.ReadingMade, ...] = ()
    searches: tuple[k.SearchStarted, ...] = ()
    scores: tuple[k.PredictionScored, ...] = ()
    skipped: Mapping[str, k.FamilySkipped] = field(default_factory=dict)
    llm_calls: Mapping[str, LlmCall] = field(default_factory=dict)
    llm_mode: k.LlmModeChosen | None = None
    fell_back: k.BrainFellBack | None = None
    notes: tuple[k.Note, ...] = ()
    noise: k.NoiseKnown | None = None
    workspace: k.WorkspaceReady | None = None
    honesty: k.HonestyRow | None = None
    final: k.FinalMeasured | None = None
    finished: k.RunFinished | None = None
    best: str = "stock"
    begun: k.ActionBegun | None = None
    """The action under way: begun, and neither carried out nor refused yet."""
    begun_seq: int = 0
    turns: int = 0
    """Actions a brain has asked for so far, refused ones included."""
    elapsed_s: float = 0.0
    spending: Spending = field(default_factory=Spending)
    sessions: int = 1
    nonces: frozenset[str] = frozenset()
    """Of all decisions that were taken into the ledger: each may be used once."""

    @property
    def open_gates(self) -> tuple[CandidateState, ...]:
        """Candidates on which a person still has to decide."""
        return tuple(candidate for candidate in self.candidates.values() if candidate.undecided)

    @property
    def standing(self) -> tuple[k.ObservationMade, ...]:
        """What was observed in launches that count, oldest first. The others are kept as observations all the same."""
        return tuple(made for made in self.observations.values() if made.launch not in self.void)
