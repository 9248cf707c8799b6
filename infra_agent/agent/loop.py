"""The loop: dossier to the brain, action to the harness, until the brain concludes or the budget ends."""

from __future__ import annotations

from infra_agent.agent.actions import Action, ConcludeAction
from infra_agent.agent.brains.base import Brain
from infra_agent.agent.calibration import score_predictions
from infra_agent.agent.cut_off import tick_off
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.execute import execute
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.results import result_of
from infra_agent.agent.telemetry import Spans
from infra_agent.agent.view import build_dossier
from infra_agent.harness.ladder import climb
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import judge_candidate, open_gate
from infra_agent.ledger import kinds as k

MAX_TURNS = 300
MAX_REFUSALS_IN_A_ROW = 10


def pursue(session: Session, brain: Brain, lane: k.Lane) -> str:
    """Let a brain act until it concludes; returns its reason. Raises BudgetSpent, StackError.

    A brain that is refused ten times in a row, or acts three hundred times, is stopped with that reason.
    """
    pick_up(session, lane)
    spans = Spans(session.run_dir.name)
    refused_in_a_row = 0
    for _ in range(MAX_TURNS):
        dossier = build_dossier(session, lane)
        action = brain.next(dossier)
        refusal = attempt(session, action, dossier, spans)
        if refusal is not None:
            refused_in_a_row += 1
            if refused_in_a_row >= MAX_REFUSALS_IN_A_ROW:
                return f"{refused_in_a_row} refused actions in a row; the last: {refusal.message}"
            continue
        refused_in_a_row = 0
        if isinstance(action, ConcludeAction):
            return action.reason
    return f"{MAX_TURNS} actions without a conclusion"


def pick_up(session: Session, lane: k.Lane) -> None:
    """After a resume: finish what was begun, and tick off the action that it was. Twice does nothing."""
    finish_what_was_begun(session, lane)
    if lane == "agent":
        tick_off(session)


def attempt(session: Session, action: Action, dossier: Dossier, spans: Spans) -> ActionError | None:
    """Carry out one action and record it; the refusal, recorded too, when it may not be."""
    lane: k.Lane = "honesty" if dossier.lane == "honesty" else "agent"
    since = session.state.head_seq
    try:
        with spans.tool(action.kind):
            execute(session, action, lane, dossier)
    except ActionError as error:
        session.ledger.append(
            k.ActionRefused(turn=dossier.turn, action=action.model_dump_json(), error=error.message, code=error.code)
        )
        session.narrator.line("Refused", error.message)
        return error
    if lane == "agent":
        take(session, action, dossier.turn, since)
    return None


def take(session: Session, action: Action, turn: int, since: int) -> None:
    """An action was carried out: score the predictions that it tested, and keep it with its result."""
    score_predictions(session)
    result = result_of(session.state, action, since)
    session.ledger.append(k.ActionTaken(turn=turn, action=action.model_dump(mode="json"), result=result))


def finish_what_was_begun(session: Session, lane: k.Lane) -> None:
    """After a resume: climb and judge what was cut off in the middle, before the brain is asked again."""
    for candidate in session.state.candidates.values():
        if candidate.proposed.lane != lane:
            continue
        if candidate.verdict is not None:
            open_gate(session, candidate.proposed.id)
            continue
        if candidate.screened is None:
            climb(session, candidate.proposed.id, lane)
        elif any(block.stage != "final" for block in candidate.blocks):
            judge_candidate(session, candidate.proposed.id, lane)
