"""What the ledger says about a model's answers: which action is due, and what came of the last ones. Pure reading."""

from __future__ import annotations

from typing import Any, NamedTuple

from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import LlmCall, RunState


class Due(NamedTuple):
    """The action of this turn in an answer. `since`: the last event before anything could be done about it."""

    action: dict[str, Any]
    call: LlmCall
    since: int


def due_action(state: RunState) -> Due | None:
    """The answered action of the present turn that is neither carried out nor refused; None when there is none."""
    call = last_with_actions(state)
    if call is None or call.answered is None or state.fell_back is not None:
        return None
    index = state.turns - call.asked.turn
    if not 0 <= index < len(call.answered.actions):
        return None
    if any(refused.turn >= call.asked.turn for refused in state.refused):
        return None
    return Due(call.answered.actions[index], call, max(call.seq, _last_end(state)))


def last_with_actions(state: RunState) -> LlmCall | None:
    """The newest answered question that led to actions."""
    for call in reversed(list(state.llm_calls.values())):
        if call.answered is not None and call.answered.actions:
            return call
    return None


def faults_in_a_row(state: RunState) -> int:
    """Faulty answers and refused actions since an action was last carried out."""
    count = 0
    for stamped in reversed(state.events):
        data = stamped.data
        if isinstance(data, k.ActionTaken):
            break
        faulty = isinstance(data, k.LlmAnswered) and bool(data.fault)
        count += faulty or isinstance(data, k.ActionRefused)
    return count


def seconds_in_vain(state: RunState) -> float:
    """What faulty answers took since an action was last carried out."""
    total = 0.0
    for stamped in reversed(state.events):
        if isinstance(stamped.data, k.ActionTaken):
            break
        if isinstance(stamped.data, k.LlmAnswered) and stamped.data.fault:
            total += stamped.data.seconds
    return total


def ends_of(state: RunState, call: LlmCall) -> list[str]:
    """What came of each action of an answer, in order."""
    assert call.answered is not None
    ends = {taken.turn: taken.result or "done" for taken in state.taken}
    ends |= {refused.turn: f"refused: {refused.error}" for refused in state.refused}
    late = "not carried out: an earlier call of the same answer was refused"
    return [ends.get(call.asked.turn + index, late) for index in range(len(call.answered.actions))]


def _last_end(state: RunState) -> int:
    for stamped in reversed(state.events):
        if isinstance(stamped.data, k.ActionTaken | k.ActionRefused):
            return stamped.seq
    return 0
