"""Carries a run from its present state to its end: tuning, final relaunch, honesty row, verdict.

Every phase reads the ledger for what is done already, so that a resumed run goes on where it was cut off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from infra_agent.agent.brains.base import Brain
from infra_agent.agent.brains.spending import room_for_candidate
from infra_agent.agent.decisions import asked_to_go_on, reopened, take_in_decisions
from infra_agent.agent.finish import run_final, run_honesty_row
from infra_agent.agent.levers import ANY_FAMILY, untried
from infra_agent.agent.loop import pursue
from infra_agent.agent.outcome import conclude
from infra_agent.agent.restack import prove_on_best
from infra_agent.agent.telemetry import Spans
from infra_agent.agent.view import build_dossier
from infra_agent.errors import BudgetSpent, ConfigError, NotProvable, StackError
from infra_agent.harness.claims import record_claims
from infra_agent.harness.leftovers import close_open_launches
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import close_open_candidates
from infra_agent.ledger import kinds as k
from infra_agent.ledger.disk import disk_error, is_disk_fault

Phase = Literal["tuning", "final", "honesty", "done"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In the order in which a run goes through them."""
BUDGET_NOTE = "budget spent: "


def carry_out(session: Session, brain: Brain) -> k.RunFinished:
    """Finish the run. A stack that fails on its own stock settings ends it as failed and is raised again."""
    close_open_launches(session)
    take_in_decisions(session)
    try:
        budget_spent = _phases(session, brain)
    except KeyboardInterrupt:
        session.ledger.append(k.Interrupted(reason="stopped by the user"))
        raise
    except NotProvable as error:
        session.ledger.append(k.Note(topic="not_measured", text=f"{error.message} ({error.where}); {error.hint}"))
        sentence = ". ".join(
            f"{text[:1].upper()}{text[1:]}" for text in (error.message, "nothing was tuned", error.hint)
        )
        return _finish(session, "not_met", int(error.exit_code), f"{sentence}.")
    except (StackError, ConfigError) as error:
        _finish(session, "failed", int(error.exit_code), f"The run failed: {error.message}")
        raise
    except OSError as error:
        if not is_disk_fault(error):
            raise
        place = Path(error.filename) if isinstance(error.filename, str) else session.run_dir
        raise disk_error(error, place, session.run_dir.name) from error
    record_claims(session)
    # Only once all phases are behind: a failed run that is cut off here is tried again, not concluded.
    _enter(session, "done")
    outcome = conclude(session.state, budget_spent)
    return _finish(session, outcome.kind, outcome.exit_code, outcome.sentence)


def begin_tuning(session: Session) -> None:
    """Before the first action of somebody who acts step by step; what a killed process left open is closed."""
    close_open_launches(session)
    take_in_decisions(session)
    _enter(session, "tuning")


def _phases(session: Session, brain: Brain) -> str:
    """All phases; returns why the budget ended them early, or nothing."""
    if session.state.phase == "done" and not reopened(session.state):
        return _why_budget_ended(session)
    try:
        if _tunes(session):
            with Spans(session.run_dir.name).agent():
                reason = pursue(session, brain, "agent")
            _note_once(session, k.Note(topic="info", text=f"{brain.name} concluded: {reason}"))
            close_open_candidates(session, "agent")
        take_in_decisions(session)
        prove_on_best(session)
        cut_short = _cut_short(session)
        _enter(session, "final")
        run_final(session)
        _enter(session, "honesty")
        run_honesty_row(session)
    except BudgetSpent as error:
        close_open_candidates(session, "agent")
        close_open_candidates(session, "honesty")
        _note_once(session, k.Note(topic="not_measured", text=f"{BUDGET_NOTE}{error.message}"))
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


def _tunes(session: Session) -> bool:
    """Whether the brain is to be asked: once its work is done, only when a person wants another change."""
    if asked_to_go_on(session.state):
        session.ledger.append(k.PhaseStarted(name="tuning", elapsed_s=session.budget.elapsed_s()))
        return True
    return not reopened(session.state) and _enter(session, "tuning")


def _enter(session: Session, phase: Phase) -> bool:
    """Go on to a phase; False when the run is past it. Only a person's decision on a run that waited leads back."""
    known = [] if reopened(session.state) else [name for name in PHASES if name == session.state.phase]
    if not known or PHASES.index(known[0]) < PHASES.index(phase):
        session.ledger.append(k.PhaseStarted(name=phase, elapsed_s=session.budget.elapsed_s()))
    return session.state.phase == phase


def _note_once(session: Session, note: k.Note) -> None:
    """A resumed session comes past the same places again."""
    if note not in session.state.notes:
        session.ledger.append(note)


def _why_budget_ended(session: Session) -> str:
    """What a session that was cut off after its last phase had found out about the budget."""
    spent = [note.text for note in session.state.notes if note.text.startswith(BUDGET_NOTE)]
    return spent[-1].removeprefix(BUDGET_NOTE) if spent else _cut_short(session)


def _finish(session: Session, outcome: str, exit_code: int, sentence: str) -> k.RunFinished:
    finished = k.RunFinished.model_validate(
        {
            "outcome": outcome, "exit_code": exit_code, "sentence": sentence,
            "elapsed_s": session.budget.elapsed_s(),
        }
    )  # fmt: skip
    session.ledger.append(finished)
    return finished
