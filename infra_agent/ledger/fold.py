"""RunState = fold(events): the only way from a ledger to what a run knows.

`step` is pure: it returns a new state, or raises LedgerError naming the event whose data are not well formed or that
cannot have happened in this order. An event of an unknown kind advances the head and changes nothing else.
A resumed run is no longer finished; the earlier end stays among `events`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any

from pydantic import ValidationError

from infra_agent.errors import LedgerError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.event import Event
from infra_agent.ledger.state import CandidateState, LlmCall, RunState, Stamped

STOCK = "stock"
"""The name that observations carry when they belong to no candidate."""
Fields = Mapping[str, Any]


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
        first = (Stamped(event.seq, event.ts, data),)
        return RunState(started=data, started_ts=event.ts, events=first, head_seq=event.seq, head_hash=event.hash)
    state = replace(state, head_seq=event.seq, head_hash=event.hash)
    if data is None:
        return state
    try:
        changes = _changes(data, state, event.seq)
    except _OutOfOrderError as error:
        raise _impossible(event, str(error)) from None
    # Spent time counts too: a session killed before it reported must not hand its budget back.
    elapsed_s = max(state.elapsed_s, getattr(data, "elapsed_s", 0.0), getattr(data, "spent_s", 0.0))
    events = (*state.events, Stamped(event.seq, event.ts, data))
    return replace(state, events=events, elapsed_s=elapsed_s, **changes)


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
    return {**known, id: value}


@singledispatch
def _changes(data: k.EventData, state: RunState, seq: int) -> Fields:
    """The fields that an event changes; kinds without a handler change none."""
    return {}


@_changes.register
def _run_started(data: k.RunStarted, state: RunState, seq: int) -> Fields:
    raise _OutOfOrderError("the run has started already")


@_changes.register
def _run_resumed(data: k.RunResumed, state: RunState, seq: int) -> Fields:
    return {"sessions": state.sessions + 1, "finished": None}


@_changes.register
def _phase(data: k.PhaseStarted, state: RunState, seq: int) -> Fields:
    return {"phase": data.name}


@_changes.register
def _launch(data: k.LaunchStarted, state: RunState, seq: int) -> Fields:
    return {"launches": _add(state.launches, data.id, data)}


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
    return {"candidates": _add(state.candidates, data.id, CandidateState(proposed=data, seq=seq))}


@_changes.register
def _action(data: k.ActionTaken, state: RunState, seq: int) -> Fields:
    return {"turns": max(state.turns, data.turn + 1), "taken": (*state.taken, data)}


@_changes.register
def _refused(data: k.ActionRefused, state: RunState, seq: int) -> Fields:
    # An action may be taken and refused in the same turn: the turn counts once.
    return {"turns": max(state.turns, data.turn + 1), "refused": (*state.refused, data)}


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
    return {**_update(state, data.candidate, accepted=data), "best": data.candidate}


@_changes.register
def _waiting(data: k.WaitingForApproval, state: RunState, seq: int) -> Fields:
    return _update(state, data.candidate, waiting=data)


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
def _finished(data: k.RunFinished, state: RunState, seq: int) -> Fields:
    return {"finished": data}
