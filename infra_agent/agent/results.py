"""How an action ended, in one line: kept with it in the ledger and shown in the next dossier."""

from __future__ import annotations

from collections.abc import Iterable

from infra_agent.agent.actions import (
    Action,
    ConcludeAction,
    HypothesiseAction,
    MeasureAction,
    ProposeAction,
    ProveAction,
    SearchAction,
)
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState, RunState


def result_of(state: RunState, action: Action, since_seq: int) -> str:
    """What the events after `since_seq` say about this action."""
    made = [at.data for at in state.events if at.seq > since_seq]
    if isinstance(action, HypothesiseAction):
        return _last(f"{data.id} is stated" for data in made if isinstance(data, k.HypothesisStated))
    if isinstance(action, ProposeAction):
        return _last(candidate_end(state.candidates[d.id]) for d in made if isinstance(d, k.CandidateProposed))
    if isinstance(action, ProveAction):
        return candidate_end(state.candidates[action.candidate]) if action.candidate in state.candidates else ""
    if isinstance(action, SearchAction):
        tried = [candidate_end(state.candidates[d.id]) for d in made if isinstance(d, k.CandidateProposed)]
        return f"{len(tried)} configurations: " + "; ".join(tried) if tried else "nothing new could be tried"
    if isinstance(action, MeasureAction):
        return "; ".join(_observed(data) for data in made if isinstance(data, k.ObservationMade)) or "no observation"
    if isinstance(action, ConcludeAction):
        return "concluded"
    return _last(_looked(data) for data in made if isinstance(data, k.ReadingMade))


def _last(lines: Iterable[str]) -> str:
    return next(iter([*lines][-1:]), "")


def candidate_end(candidate: CandidateState) -> str:
    """A candidate and how far it came."""
    name = f"{candidate.proposed.id} {candidate.proposed.title}"
    if candidate.verdict is not None:
        return f"{name}: {candidate.verdict.decision} on rung {candidate.verdict.rung}: {candidate.verdict.reason}"
    if candidate.screened is not None:
        screened = candidate.screened
        return f"{name}: screened x{screened.estimate.ratio:.3g} of {screened.against}: {screened.outcome}"
    return f"{name}: not climbed yet"


def _observed(made: k.ObservationMade) -> str:
    document = made.observation
    return f"{made.id} {document.get('probe')} {document.get('verdict')}: {document.get('summary')}"


def _looked(reading: k.ReadingMade) -> str:
    return f"{reading.id} {reading.source}: {reading.lines} of {reading.total} lines, shown in this dossier"
