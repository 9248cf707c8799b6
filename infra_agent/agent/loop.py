"""The loop: dossier to the brain, action to the harness, until the brain concludes or the budget ends."""

from __future__ import annotations

from infra_agent.agent.actions import Action, ConcludeAction
from infra_agent.agent.brains.base import Brain
from infra_agent.agent.calibration import score_predictions
from infra_agent.agent.decisions import take_in_decisions
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.execute import execute
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.results import result_of
from infra_agent.agent.telemetry import Spans
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
    spans = Spans(session.run_dir.name)
    watchdog = Watchdog.resumed(session.state) if lane == "agent" else Watchdog()
    for _ in range(MAX_TURNS):
        if lane == "agent":
            take_in_decisions(session)
        dossier = build_dossier(session, lane)
        action = (action_under_way(session) if lane == "agent" else None) or _asked(session, brain, dossier)
        refusal = attempt(session, action, dossier, spans)
        if isinstance(action, ConcludeAction) and refusal is None:
            return action.reason
        refused = refusal is not None
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


def _asked(session: Session, brain: Brain, dossier: Dossier) -> Action:
    if dossier.lane == "agent":
        session.budget.require_turn(dossier.turn)
    return brain.next(dossier)


def pick_up(session: Session, spans: Spans) -> None:
    """After a resume, for one who acts step by step: finish what was begun. Twice does nothing."""
    finish_what_was_begun(session, "agent")
    under_way = action_under_way(session)
    if under_way is not None:
        attempt(session, under_way, build_dossier(session, "agent"), spans)


def attempt(session: Session, action: Action, dossier: Dossier, spans: Spans) -> ActionError | None:
    """Carry out one action, or what a killed process left of it, and record it; the refusal when it may not be.

    Of the brain's own work an action is stored before it is carried out.
    """
    lane: k.Lane = "honesty" if dossier.lane == "honesty" else "agent"
    own = lane == "agent"
    cut_off = own and session.state.begun is not None
    if own and not cut_off:
        begin_action(session, action, dossier.turn)
    try:
        with spans.tool(action.kind):
            if not (cut_off and has_its_effect(session, action)):
                execute(session, action, lane, dossier)
    except ActionError as error:
        session.ledger.append(
            k.ActionRefused(turn=dossier.turn, action=action.model_dump_json(), error=error.message, code=error.code)
        )
        session.narrator.line("Refused", error.message)
        return error
    if own:
        _take(session, action, dossier.turn)
    return None


def _take(session: Session, action: Action, turn: int) -> None:
    """An action was carried out: score the predictions that it tested, and keep it with its result."""
    score_predictions(session)
    result = result_of(session.state, action, session.state.begun_seq)
    session.ledger.append(k.ActionTaken(turn=turn, action=action.model_dump(mode="json"), result=result))


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
