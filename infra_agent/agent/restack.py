"""A change that may be applied, but was proved on a base that is no longer the best: proved again on top of the best.

What is then proved is a new candidate with a gate of its own, because nobody has measured, or seen, the two together.
Covered: proposing, climbing and judging it, and going on after a crash in the middle.
Not covered: changes that stand on the best; they are applied when they are approved (`ledger.decisions`).
"""

from __future__ import annotations

from infra_agent.agent.actions import ParameterChange, ProposeAction
from infra_agent.agent.decisions import note_once
from infra_agent.agent.execute import execute
from infra_agent.agent.loop import finish_what_was_begun
from infra_agent.agent.refusals import ActionError
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import judge_candidate
from infra_agent.ledger.decisions import stands_on_best
from infra_agent.ledger.state import CandidateState, RunState


def prove_on_best(session: Session) -> None:
    """Prove again what cannot be applied as it was measured. Raises BudgetSpent, StackError."""
    if not _stale(session.state):
        return
    finish_what_was_begun(session, "agent")
    for candidate in _stale(session.state):
        _prove_again(session, candidate)


def _stale(state: RunState) -> list[CandidateState]:
    """Proved, and approved where a person has to, but on another base than today's best."""
    free = [c for c in state.candidates.values() if c.waiting is None or c.approved is not None]
    proved = [c for c in free if c.verdict is not None and c.verdict.decision == "accepted" and c.accepted is None]
    return [c for c in proved if c.proposed.lane == "agent" and not stands_on_best(state, c.proposed.id)]


def _prove_again(session: Session, candidate: CandidateState) -> None:
    proposed, before = candidate.proposed, set(session.state.candidates)
    changes = tuple(ParameterChange(parameter=c["parameter"], value=c["value"]) for c in proposed.changes)
    diff = proposed.patch.diff if proposed.patch is not None else None
    action = ProposeAction(hypothesis=proposed.hypothesis, changes=changes, diff=diff, base="best")
    try:
        execute(session, action, "agent")
    except ActionError as error:
        note_once(session, f"{proposed.id} was proved on {proposed.base}, and is not applied: {error.message}")
        return
    for id in session.state.candidates.keys() - before:
        best = session.state.best
        note_once(session, f"{proposed.id} was proved on {proposed.base}, the best is now {best}: proved again as {id}")
        if session.state.candidates[id].verdict is None:
            judge_candidate(session, id, "agent")
