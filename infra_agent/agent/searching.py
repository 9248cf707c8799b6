"""The plain search as a tool of a brain: part of the space, for some minutes, every trial an ordinary candidate.

Covered: going on after a kill without starting the minutes anew. Not covered: proving what it finds; that is an action
of its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace

from infra_agent.agent.actions import ConcludeAction, MeasureAction, ProposeAction, SearchAction
from infra_agent.agent.brains.search import SearchBrain
from infra_agent.agent.brains.spending import room_for_candidate, time_left_s
from infra_agent.agent.dossier import CandidateView, Dossier
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.view import build_dossier
from infra_agent.changes.change import STOCK
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k

MAX_TRIALS = 200

Carry = Callable[[ProposeAction | MeasureAction], None]


def run_search(session: Session, action: SearchAction, turn: int, carry: Carry) -> None:
    """Sample, then re-measure the better half, until the minutes are used. ActionError for a space that is none."""
    names = _space(session, action)
    started_seq = _begin(session, action, turn, names)
    brain = SearchBrain(screen_s=60.0 * action.minutes, judges=False)
    refused: list[ProposeAction] = []
    for _ in range(MAX_TRIALS):
        dossier = _restricted(build_dossier(session, "agent"), names, _own(session, started_seq), refused)
        wanted = brain.next(dossier)
        if isinstance(wanted, ConcludeAction) or not room_for_candidate(dossier):
            return
        if isinstance(wanted, MeasureAction):
            carry(wanted)
        elif isinstance(wanted, ProposeAction):
            trial = wanted.model_copy(update={"hypothesis": action.hypothesis})
            try:
                carry(trial)
            except ActionError:
                refused.append(trial)


def _space(session: Session, action: SearchAction) -> tuple[str, ...]:
    space = session.stack.space if session.goal.scope.parameters else {}
    if not space:
        raise ActionError("nothing can be searched: the stack's space is empty or the goal's scope excludes it")
    for name in action.parameters:
        if name not in space:
            near = difflib.get_close_matches(name, space, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ActionError(f"parameter {name!r} is not in the stack's search space{hint}")
    left_s = time_left_s(build_dossier(session, "agent"))
    if 60.0 * action.minutes > left_s:
        raise ActionError(f"{action.minutes:g} minutes are asked for and {left_s / 60:.1f} are left for tuning")
    return action.parameters or tuple(space)


def _begin(session: Session, action: SearchAction, turn: int, names: tuple[str, ...]) -> int:
    """Sequence number of the search's start; one cut off by a kill goes on."""
    for stamped in reversed(session.state.events):
        if isinstance(stamped.data, k.SearchStarted):
            if stamped.data.turn == turn:
                return stamped.seq
            break
    started = k.SearchStarted(turn=turn, hypothesis=action.hypothesis, parameters=names, minutes=action.minutes)
    return session.ledger.append(started).seq


def _own(session: Session, started_seq: int) -> frozenset[str]:
    return frozenset(c.proposed.id for c in session.state.candidates.values() if c.seq > started_seq)


def _restricted(
    dossier: Dossier, names: tuple[str, ...], own: frozenset[str], refused: Sequence[ProposeAction]
) -> Dossier:
    """The part of the dossier that this search may see: its space; what was tried in it before costs it nothing."""
    inside = [c for c in dossier.candidates if c.base == STOCK and set(c.changes) <= set(names)]
    seen = [c if c.id in own else replace(c, cost_s=0.0, screen=None) for c in inside]
    space = {name: values for name, values in dossier.space.items() if name in names}
    return replace(dossier, space=space, candidates=(*seen, *map(_not_again, refused)))


def _not_again(trial: ProposeAction) -> CandidateView:
    """A configuration that was refused, so that the search draws another one."""
    return CandidateView(
        id="",
        hypothesis=trial.hypothesis,
        family="",
        base=STOCK,
        changes={change.parameter: change.value for change in trial.changes},
        risk="",
        status="refused",
        reason="",
        screen=None,
        screen_ratio=None,
        measurements=0,
        proved_ratio=None,
        cost_s=0.0,
    )
