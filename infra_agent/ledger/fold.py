"""RunState = fold(events): the only way from a ledger to what a run knows.

`step` is pure: it returns a new state, or raises LedgerError naming the event whose data are not well formed or that
cannot have happened in this order. An event of an unknown kind advances the head and changes nothing else.
A resumed run is no longer finished; the earlier end stays among `events`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from pydantic import ValidationError

from infra_agent.errors import LedgerError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.event import Event
from infra_agent.ledger.history import History, Register
from infra_agent.ledger.spending import Amounts, Spending
from infra_agent.ledger.state import CandidateState, Evidence, LlmCall, RunState, Stamped
from infra_agent.review.approval import SignedGrant
from infra_agent.review.risk import GATED
from infra_agent.stack.engines.base import RiskClass

STOCK = "stock"
"""The name that observations carry when they belong to no candidate."""
Fields = Mapping[str, Any]
_UNGATED = frozenset(risk.value for risk in RiskClass if risk not in GATED)
_RESULTS = (
    k.Screened, k.VerdictGiven, k.BlockMeasured, k.NoiseKnown, k.ActionTaken, k.ActionRefused, k.HonestyRow,
    k.FinalMeasured,
)  # fmt: skip
"""Each stores what the launches before it were made for."""


def fold(events: Iterable[Event]) -> RunState:
    """The state after all events; LedgerError if there are none or one cannot have happened."""
    state: RunState | None = None
    for event in events:
        state = step(state, event)
    if state is None:
        raise LedgerError("the ledger holds no event: the run never started")
    return state


def step(state: RunState | None, event: Event) -> RunState:
    """The state after one more event. None stands for the time before the first."""
    data = _payload(event)
    if state is None:
        if not isinstance(data, k.RunStarted):
            raise _impossible(event, "a ledger begins with run_started")
        first = History([Stamped(event.seq, event.ts, data)])
        return RunState(started=data, started_ts=event.ts, events=first, head_seq=event.seq, head_hash=event.hash)
    head: Fields = {"head_seq": event.seq, "head_hash": event.hash}
    if data is None:
        return replace(state, **head)
    try:
        changes = _changes(data, state, event.seq)
    except _OutOfOrderError as error:
        raise _impossible(event, str(error)) from None
    if isinstance(data, _RESULTS):
        changes = {**changes, "unsettled": ()}
    # Spent time counts too: a session killed before it reported must not hand its budget back.
    elapsed_s = max(state.elapsed_s, getattr(data, "elapsed_s", 0.0), getattr(data, "spent_s", 0.0))
    events = state.events.with_item(Stamped(event.seq, event.ts, data))
    return replace(state, events=events, elapsed_s=elapsed_s, **head, **changes)


class _OutOfOrderError(Exception):
    """An event needs another that has not happened, or repeats one that has."""


def _impossible(event: Event, why: str) -> LedgerError:
    return LedgerError(f"event {event.seq} ({event.kind}) cannot have happened: {why}")


def _payload(event: Event) -> k.EventData | None:
    model = k.KINDS.get(event.kind)
    if model is None:
        return None
    try:
        return model.model_validate(dict(event.data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "data"
        raise LedgerError(f"event {event.seq} ({event.kind}) is not well formed: {place}: {first['msg']}") from None


def _candidate(state: RunState, id: str) -> CandidateState:
    if id not in state.candidates:
        raise _OutOfOrderError(f"candidate {id!r} is unknown")
    return state.candidates[id]


def _update(state: RunState, id: str, **fields: Any) -> Fields:
    return {"candidates": {**state.candidates, id: replace(_candidate(state, id), **fields)}}


def _add(known: Mapping[str, Any], id: str, value: Any) -> Mapping[str, Any]:
    if id in known:
        raise _OutOfOrderError(f"the id {id!r} is taken")
    return known.with_item(id, value) if isinstance(known, Register) else {**known, id: value}


@singledispatch
def _changes(data: k.EventData, state: RunState, seq: int) -> Fields:
    """The fields that an event changes; kinds without a handler change none."""
    return {}


@_changes.register
def _run_started(data: k.RunStarted, state: RunState, seq: int) -> Fields:
    raise _OutOfOrderError("the run has started already")


@_changes.register
def _run_resumed(data: k.RunResumed, state: RunState, seq: int) -> Fields:
    void = state.void.union(state.unsettled)
    return {"sessions": state.sessions + 1, "finished": None, "void": void, "unsettled": ()}


@_changes.register
def _workspace(data: k.WorkspaceReady, state: RunState, seq: int) -> Fields:
    if state.workspace is not None:
        raise _OutOfOrderError("the run has its copy of the sources already")
    return {"workspace": data}


@_changes.register
def _phase(data: k.PhaseStarted, state: RunState, seq: int) -> Fields:
    return {"phase": data.name}


@_changes.register
def _launch(data: k.LaunchStarted, state: RunState, seq: int) -> Fields:
    return {"launches": _add(state.launches, data.id, data), "unsettled": (*state.unsettled, data.id)}


@_changes.register
def _launch_ended(data: k.LaunchEnded, state: RunState, seq: int) -> Fields:
    if data.id not in state.launches:
        raise _OutOfOrderError(f"launch {data.id!r} was never started")
    return {"launches_ended": _add(state.launches_ended, data.id, data)}


@_changes.register
def _observation(data: k.ObservationMade, state: RunState, seq: int) -> Fields:
    seen = {"observations": _add(state.observations, data.id, data)}
    if data.candidate == STOCK:
        return seen
    before = _candidate(state, data.candidate).observations
    return {**seen, **_update(state, data.candidate, observations=(*before, data.id))}


@_changes.register
def _hypothesis(data: k.HypothesisStated, state: RunState, seq: int) -> Fields:
    return {"hypotheses": _add(state.hypotheses, data.id, data)}


@_changes.register
def _proposed(data: k.CandidateProposed, state: RunState, seq: int) -> Fields:
    if data.hypothesis and data.hypothesis not in state.hypotheses:
        raise _OutOfOrderError(f"hypothesis {data.hypothesis!r} was never stated")
    if data.id == STOCK:
        raise _OutOfOrderError(f"no candidate may be called {STOCK!r}")
    if data.patches and state.workspace is None:
        raise _OutOfOrderError("a code change needs the run's own copy of the sources")
    return {"candidates": _add(state.candidates, data.id, CandidateState(proposed=data, seq=seq))}


@_changes.register
def _action_begun(data: k.ActionBegun, state: RunState, seq: int) -> Fields:
    if state.begun is not None:
        raise _OutOfOrderError(f"the action of turn {state.begun.turn} has not ended")
    return {"begun": data, "begun_seq": seq}


@_changes.register
def _action(data: k.ActionTaken, state: RunState, seq: int) -> Fields:
    return {"turns": max(state.turns, data.turn + 1), "taken": (*state.taken, data), "begun": None}


@_changes.register
def _refused(data: k.ActionRefused, state: RunState, seq: int) -> Fields:
    # An action may be taken and refused in the same turn: the turn counts once.
    return {"turns": max(state.turns, data.turn + 1), "refused": (*state.refused, data), "begun": None}


@_changes.register
def _reading(data: k.ReadingMade, state: RunState, seq: int) -> Fields:
    return {"readings": (*state.readings, data)}


@_changes.register
def _search(data: k.SearchStarted, state: RunState, seq: int) -> Fields:
    return {"searches": (*state.searches, data)}


@_changes.register
def _scored(data: k.PredictionScored, state: RunState, seq: int) -> Fields:
    return {"scores": (*state.scores, data)}


@_changes.register
def _skipped(data: k.FamilySkipped, state: RunState, seq: int) -> Fields:
    return {"skipped": {**state.skipped, data.family: data}}


@_changes.register
def _asked(data: k.LlmAsked, state: RunState, seq: int) -> Fields:
    return {"llm_calls": _add(state.llm_calls, data.id, LlmCall(asked=data, seq=seq, phase=state.phase))}


@_changes.register
def _answered(data: k.LlmAnswered, state: RunState, seq: int) -> Fields:
    call = state.llm_calls.get(data.id)
    if call is None or call.answered is not None:
        raise _OutOfOrderError(f"question {data.id!r} " + ("was never asked" if call is None else "has its answer"))
    return {"llm_calls": {**state.llm_calls, data.id: replace(call, answered=data)}}


@_changes.register
def _mode(data: k.LlmModeChosen, state: RunState, seq: int) -> Fields:
    return {"llm_mode": data}


@_changes.register
def _fell_back(data: k.BrainFellBack, state: RunState, seq: int) -> Fields:
    return {"fell_back": data}


@_changes.register
def _screened(data: k.Screened, state: RunState, seq: int) -> Fields:
    return _update(state, data.candidate, screened=data)


@_changes.register
def _noise(data: k.NoiseKnown, state: RunState, seq: int) -> Fields:
    return {"noise": data}


@_changes.register
def _block(data: k.BlockMeasured, state: RunState, seq: int) -> Fields:
    return _update(state, data.candidate, blocks=(*_candidate(state, data.candidate).blocks, data))


@_changes.register
def _look(data: k.Looked, state: RunState, seq: int) -> Fields:
    return _update(state, data.candidate, looks=(*_candidate(state, data.candidate).looks, data))


@_changes.register
def _verdict(data: k.VerdictGiven, state: RunState, seq: int) -> Fields:
    return _update(state, data.candidate, verdict=data, verdict_seq=seq)


@_changes.register
def _accepted(data: k.Accepted, state: RunState, seq: int) -> Fields:
    verdict = _candidate(state, data.candidate).verdict
    if verdict is None or verdict.decision != "accepted":
        raise _OutOfOrderError(f"candidate {data.candidate!r} has no verdict that accepts it")
    _require_consent(data, state)
    # A final relaunch belongs to the best of its time.
    return {**_update(state, data.candidate, accepted=data), "best": data.candidate, "final": None}


def _require_consent(data: k.Accepted, state: RunState) -> None:
    """A class that waits for a person, or one that is unknown, needs the event that says who approved."""
    candidate = _candidate(state, data.candidate)
    approved = candidate.approved
    if approved is None and (candidate.waiting is not None or candidate.proposed.risk not in _UNGATED):
        raise _OutOfOrderError(f"candidate {data.candidate!r} of class {candidate.proposed.risk} was never approved")
    if data.request != (approved.request if approved is not None else ""):
        raise _OutOfOrderError(f"candidate {data.candidate!r} was approved under another request")


@_changes.register
def _waiting(data: k.WaitingForApproval, state: RunState, seq: int) -> Fields:
    candidate = _candidate(state, data.candidate)
    if candidate.waiting is not None or candidate.accepted is not None:
        raise _OutOfOrderError(f"the gate of candidate {data.candidate!r} has opened already")
    # The head before this event: the evidence that lay on the table when the gate opened.
    return _update(state, data.candidate, waiting=data, evidence=Evidence(state.head_seq, state.head_hash))


@_changes.register
def _approved(data: k.Approved, state: RunState, seq: int) -> Fields:
    spent = _spend(data.candidate, data.request, data.grants, state)
    return {**spent, **_update(state, data.candidate, approved=data)}


@_changes.register
def _declined(data: k.Declined, state: RunState, seq: int) -> Fields:
    spent = _spend(data.candidate, data.request, (data.grant,), state)
    return {**spent, **_update(state, data.candidate, declined=data)}


def _spend(id: str, request: str, grants: Sequence[SignedGrant], state: RunState) -> Fields:
    """A decision needs an open gate, its own request, and nonces that no earlier decision has used."""
    candidate = _candidate(state, id)
    if not candidate.undecided or candidate.waiting is None:
        raise _OutOfOrderError(f"candidate {id!r} does not wait for a person")
    if candidate.waiting.request not in ("", request):
        raise _OutOfOrderError(f"candidate {id!r} waits under another request")
    nonces = [signed.grant.nonce for signed in grants]
    if len(set(nonces)) < len(nonces) or state.nonces & set(nonces):
        raise _OutOfOrderError("a decision is used a second time")
    return {"nonces": state.nonces | set(nonces)}


@_changes.register
def _honesty(data: k.HonestyRow, state: RunState, seq: int) -> Fields:
    return {"honesty": data}


@_changes.register
def _final(data: k.FinalMeasured, state: RunState, seq: int) -> Fields:
    return {"final": data}


@_changes.register
def _note(data: k.Note, state: RunState, seq: int) -> Fields:
    return {"notes": (*state.notes, data)}


@_changes.register
def _reserved(data: k.BudgetReserved, state: RunState, seq: int) -> Fields:
    return _spent(state.spending.reserve, data)


@_changes.register
def _settled(data: k.BudgetSettled, state: RunState, seq: int) -> Fields:
    return _spent(state.spending.settle, data)


def _spent(change: Callable[[str, Amounts], Spending], data: k.BudgetReserved | k.BudgetSettled) -> Fields:
    try:
        return {"spending": change(data.id, {str(kind): amount for kind, amount in data.amounts.items()})}
    except ValueError as error:
        raise _OutOfOrderError(str(error)) from None


@_changes.register
def _finished(data: k.RunFinished, state: RunState, seq: int) -> Fields:
    return {"finished": data}
