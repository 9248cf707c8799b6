"""The action under way: stored before it is carried out, and gone on with after a crash instead of asked for again.

Covered: which action a killed session was busy with, and whether its effect is in the ledger already.
Not covered: doing the rest of a climb or a proof (`agent.loop`, `harness`); they go on from their own events.
"""

from __future__ import annotations

from infra_agent.agent.actions import (
    ACTION,
    Action,
    ConcludeAction,
    ConsultAction,
    HypothesiseAction,
    MeasureAction,
    ProposeAction,
    ProveAction,
    ReadAction,
    RecallAction,
    SearchAction,
    SearchCodeAction,
)
from infra_agent.harness.baseline import baseline_complete
from infra_agent.harness.session import Session
from infra_agent.harness.windows import figure_probe
from infra_agent.ledger import kinds as k


def begin_action(session: Session, action: Action, turn: int) -> None:
    """Store the intent: from here on the action is carried out, by this session or by one that resumes it."""
    session.ledger.append(k.ActionBegun(turn=turn, action=action.model_dump(mode="json")))


def action_under_way(session: Session) -> Action | None:
    """The action that a session before this one began and did not end."""
    begun = session.state.begun
    return None if begun is None else ACTION.validate_python(begun.action)


def concluded(session: Session) -> str | None:
    """The reason with which the brain has ended its work already, if it has and no person has asked for more since."""
    taken: list[k.ActionTaken] = []
    for at in session.state.events:
        if isinstance(at.data, k.PhaseStarted) and at.data.name == "tuning":
            taken = []
        elif isinstance(at.data, k.ActionTaken):
            taken.append(at.data)
    last = ACTION.validate_python(taken[-1].action) if taken else None
    return last.reason if isinstance(last, ConcludeAction) else None


def has_its_effect(session: Session, action: Action) -> bool:
    """Whether the ledger holds what the action under way was to bring about, so that doing it again would repeat it."""
    since = [at.data for at in session.state.events if at.seq > session.state.begun_seq]
    match action:
        case HypothesiseAction():
            return any(isinstance(data, k.HypothesisStated) for data in since)
        case ProposeAction():
            return any(isinstance(data, k.CandidateProposed) and data.lane == "agent" for data in since)
        case ProveAction(candidate=id):
            candidate = session.state.candidates.get(id)
            return candidate is not None and (candidate.verdict_seq or 0) > session.state.begun_seq
        case MeasureAction(probe=probe) if probe != figure_probe(session.stack):
            return _looked(since)
        case MeasureAction():
            return _measured(session, since)
        case ReadAction() | SearchCodeAction() | ConsultAction() | RecallAction():
            return any(isinstance(data, k.ReadingMade) for data in since)
        case SearchAction() | ConcludeAction():
            # A search goes on with the minutes that it has left; a conclusion is checked and drawn again.
            return False
    return False


def _looked(since: list[k.EventData]) -> bool:
    """All observations of one run of a local probe are there."""
    made = [data.observation for data in since if isinstance(data, k.ObservationMade) and data.purpose == "probe"]
    number, count = made[-1].get("detail", {}).get("of_run", (0, 1)) if made else (0, 1)
    return bool(number == count)


def _measured(session: Session, since: list[k.EventData]) -> bool:
    """A launch of its own went to its end; for the first measurement of stock, all its parts are there."""
    ended = {data.id for data in since if isinstance(data, k.LaunchEnded) and data.outcome != "interrupted"}
    launches = [data for data in since if isinstance(data, k.LaunchStarted) and data.id in ended]
    return bool(launches) and (launches[-1].purpose != "baseline" or baseline_complete(session))
