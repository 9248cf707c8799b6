"""The loop: dossier to the brain, action to the harness, until the brain concludes or the budget ends."""

from __future__ import annotations

from infra_agent.agent.actions import Action, ConcludeAction
from infra_agent.agent.brains.base import Brain
from infra_agent.agent.decisions import take_in_decisions
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.execute import execute
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.under_way import action_under_way, begin_action, concluded, has_its_effect
from infra_agent.agent.view import build_dossier
from infra_agent.agent.watchdog import Watchdog, progress_of
from infra_agent.harness.ladder import climb
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import judge_candidate, settle
from infra_agent.ledger import kinds as k

MAX_TURNS = 300


def pursue(session: Session, brain: Brain, lane: k.Lane) -> str:
    """Let a brain act until it concludes; returns its reason. Raises BudgetSpent, StackError.

    A brain that makes no progress (`watchdog`), or acts three hundred times, is stopped with that reason.
    """
    finish_what_was_begun(session, lane)
    if lane == "agent" and (reason := concluded(session)) is not None:
        return reason
    watchdog = Watchdog.resumed(session.state) if lane == "agent" else Watchdog()
    for _ in range(MAX_TURNS):
        if lane == "agent":
            take_in_decisions(session)
        dossier = build_dossier(session, lane)
        under_way = action_under_way(session) if lane == "agent" else None
        action = under_way or _asked(session, brain, dossier, lane)
        refused = False
        try:
            if under_way is None or not has_its_effect(session, action):
                execute(session, action, lane)
            if lane == "agent":
                session.ledger.append(k.ActionTaken(turn=dossier.turn, action=action.model_dump(mode="json")))
        except ActionError as error:
            refused = True
            session.ledger.append(
                k.ActionRefused(turn=dossier.turn, action=action.model_dump_json(), error=error.message)
            )
            session.narrator.line("Refused", error.message)
        if isinstance(action, ConcludeAction) and not refused:
            return action.reason
        reason = watchdog.saw(action.model_dump(mode="json"), refused=refused, progress=progress_of(session.state))
        if reason:
            return _stopped(session, lane, reason)
    return f"{MAX_TURNS} actions without a conclusion"


def _stopped(session: Session, lane: k.Lane, reason: str) -> str:
    """The harness ends a brain's work: what it has found stands, and the report says so."""
    last = session.state.refused[-1].error if reason.endswith("in a row") and session.state.refused else ""
    text = f"{reason}; the last: {last}" if last else reason
    if lane == "agent":
        session.ledger.append(k.Note(topic="stalled", text=text))
        session.narrator.line("Stopped", f"no progress: {text}")
    return text


def _asked(session: Session, brain: Brain, dossier: Dossier, lane: k.Lane) -> Action:
    """The brain's next action; of the brain's own work it is stored before it is carried out."""
    if lane != "agent":
        return brain.next(dossier)
    session.budget.require_turn(dossier.turn)
    action = brain.next(dossier)
    begin_action(session, action, dossier.turn)
    return action


def finish_what_was_begun(session: Session, lane: k.Lane) -> None:
    """After a resume: climb and judge what was cut off in the middle, before the brain is asked again."""
    for candidate in session.state.candidates.values():
        if candidate.proposed.lane != lane:
            continue
        if candidate.verdict is not None:
            settle(session, candidate.proposed.id)
            continue
        if candidate.screened is None:
            climb(session, candidate.proposed.id, lane)
        elif any(block.stage != "final" for block in candidate.blocks):
            judge_candidate(session, candidate.proposed.id, lane)
