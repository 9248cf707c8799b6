"""RunState: what a ledger says when read from the first event to the last. Built only by `ledger.fold`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from infra_agent.ledger import kinds as k


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
    events: tuple[Stamped, ...] = ()
    head_seq: int = 0
    head_hash: str = ""
    phase: str = ""
    observations: Mapping[str, k.ObservationMade] = field(default_factory=dict)
    hypotheses: Mapping[str, k.HypothesisStated] = field(default_factory=dict)
    candidates: Mapping[str, CandidateState] = field(default_factory=dict)
    launches: Mapping[str, k.LaunchStarted] = field(default_factory=dict)
    launches_ended: Mapping[str, k.LaunchEnded] = field(default_factory=dict)
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
    honesty: k.HonestyRow | None = None
    final: k.FinalMeasured | None = None
    finished: k.RunFinished | None = None
    best: str = "stock"
    turns: int = 0
    """Actions a brain has asked for so far, refused ones included."""
    elapsed_s: float = 0.0
    sessions: int = 1
