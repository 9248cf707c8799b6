"""Carries a run from its present state to its end: tuning, final relaunch, honesty row, verdict.

Every phase reads the ledger for what is done already, so that a resumed run goes on where it was cut off.
"""

from __future__ import annotations

from typing import Literal

from infra_agent.agent.brains.base import Brain
from infra_agent.agent.brains.spending import room_for_candidate
from infra_agent.agent.finish import run_final, run_honesty_row
from infra_agent.agent.levers import ANY_FAMILY, untried
from infra_agent.agent.loop import pursue
from infra_agent.agent.outcome import conclude
from infra_agent.agent.telemetry import Spans
from infra_agent.agent.view import build_dossier
from infra_agent.errors import BudgetSpent, ConfigError, StackError
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import close_open_candidates
from infra_agent.ledger import kinds as k

Phase = Literal["baseline", "tuning", "honesty", "final", "done"]
AFTER_TUNING = ("final", "honesty", "done")


def carry_out(session: Session, brain: Brain) -> k.RunFinished:
    """Finish the run. A stack that fails on its own stock settings ends it as failed and is raised again."""
    close_cut_off_launches(session)
    try:
        budget_spent = _phases(session, brain)
    except KeyboardInterrupt:
        session.ledger.append(k.Interrupted(reason="stopped by the user"))
        raise
    except (StackError, ConfigError) as error:
        _finish(session, "failed", int(error.exit_code), f"The run failed: {error.message}")
        raise
    outcome = conclude(session.state, budget_spent)
    return _finish(session, outcome.kind, outcome.exit_code, outcome.sentence)


def begin_tuning(session: Session) -> None:
    """Before the first action of somebody who acts step by step; what a killed process left open is closed."""
    close_cut_off_launches(session)
    if session.state.phase not in (*AFTER_TUNING, "tuning"):
        _enter(session, "tuning")


def close_cut_off_launches(session: Session) -> None:
    """After a crash: a launch without an end is recorded as cut off. Its process died with the harness."""
    state = session.state
    for launch_id in state.launches.keys() - state.launches_ended.keys():
        session.ledger.append(
            k.LaunchEnded(
                id=launch_id, outcome="interrupted", ready_s=None, wall_s=0.0, message="the harness ended before it did"
            )
        )


def _phases(session: Session, brain: Brain) -> str:
    """All phases; returns why the budget ended them early, or nothing."""
    try:
        if session.state.phase not in AFTER_TUNING:
            _enter(session, "tuning")
            with Spans(session.run_dir.name).agent():
                reason = pursue(session, brain, "agent")
            session.ledger.append(k.Note(topic="info", text=f"{brain.name} concluded: {reason}"))
            close_open_candidates(session, "agent")
        cut_short = _cut_short(session)
        _enter(session, "final")
        run_final(session)
        _enter(session, "honesty")
        run_honesty_row(session)
    except BudgetSpent as error:
        close_open_candidates(session, "agent")
        close_open_candidates(session, "honesty")
        session.ledger.append(k.Note(topic="not_measured", text=f"budget spent: {error.message}"))
        session.narrator.line("Budget", error.message)
        return error.message
    return cut_short


def _cut_short(session: Session) -> str:
    """Why tuning ended before its levers did, if the budget was the reason."""
    dossier = build_dossier(session, "agent")
    left = [f"{parameter.title} = {value}" for parameter, value in untried(ANY_FAMILY, dossier)]
    if not left or room_for_candidate(dossier):
        return ""
    return f"{len(left)} levers are untested: {', '.join(left)}."


def _enter(session: Session, phase: Phase) -> None:
    if session.state.phase != phase:
        session.ledger.append(k.PhaseStarted(name=phase, elapsed_s=session.budget.elapsed_s()))


def _finish(session: Session, outcome: str, exit_code: int, sentence: str) -> k.RunFinished:
    _enter(session, "done")
    finished = k.RunFinished.model_validate(
        {
            "outcome": outcome, "exit_code": exit_code, "sentence": sentence,
            "elapsed_s": session.budget.elapsed_s(),
        }
    )  # fmt: skip
    session.ledger.append(finished)
    return finished
