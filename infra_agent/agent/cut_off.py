"""After a kill: an action of a model that was carried out but not yet ticked off is ticked off, not asked for again."""

from __future__ import annotations

from infra_agent.agent.actions import ACTION, Action
from infra_agent.agent.asked import due_action
from infra_agent.agent.results import result_of
from infra_agent.harness.baseline import baseline_complete
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k


def tick_off(session: Session) -> None:
    """Record the due action as taken when its effect is in the ledger. What was begun has been finished before."""
    due = due_action(session.state)
    if due is None:
        return
    action = ACTION.validate_python(due.action)
    if _has_happened(session, action, due.since):
        state = session.state
        result = result_of(state, action, due.since)
        session.ledger.append(k.ActionTaken(turn=state.turns, action=due.action, result=result))


def _has_happened(session: Session, action: Action, since: int) -> bool:
    state = session.state
    made = [stamped.data for stamped in state.events if stamped.seq > since]
    if action.kind == "hypothesise":
        return any(isinstance(data, k.HypothesisStated) for data in made)
    if action.kind == "propose":
        return any(isinstance(data, k.CandidateProposed) and data.lane == "agent" for data in made)
    if action.kind == "prove":
        return any(isinstance(data, k.VerdictGiven) and data.candidate == action.candidate for data in made)
    if action.kind == "measure":
        windows = [data for data in made if isinstance(data, k.ObservationMade) and data.lane == "agent"]
        repeated = any(data.purpose == "measure" for data in windows)
        return repeated or (any(data.purpose == "baseline" for data in windows) and baseline_complete(session))
    # A search goes on with the minutes it has left; a conclusion is drawn again.
    return any(isinstance(data, k.ReadingMade) for data in made)
