"""People's decisions in the course of a run: taken in between two steps, and what follows from them.

Covered: a live run, a resumed one, and tuning that a person asked to go on.
Not covered: making decisions; nothing here can sign one.
"""

from __future__ import annotations

from pathlib import Path

from infra_agent.errors import ApprovalPending, ApprovalRefused
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import Authority
from infra_agent.ledger.consent import require_consent
from infra_agent.ledger.decisions import rule, take_in
from infra_agent.ledger.state import RunState


def require_decided(run_dir: Path, state: RunState, authority: Authority) -> None:
    """Before a run is resumed: every decision must hold, and one that ended waiting needs something new.

    ApprovalRefused names what does not hold; ApprovalPending says that nobody has decided. Nothing is written.
    """
    rulings = rule(run_dir, state, authority)
    require_consent(run_dir, state, [id for id, c in state.candidates.items() if c.approved is not None], authority)
    if state.finished is None or _news(state) or any(ruling.event is not None for ruling in rulings):
        return
    where, names = str(run_dir), ", ".join(c.proposed.id for c in state.open_gates)
    lacking = next((ruling.lacking for ruling in rulings), "")
    if lacking:
        raise ApprovalRefused(lacking, where=where, hint=f"infra-agent review show {run_dir.name}")
    hint = f"infra-agent review show {run_dir.name}/{state.open_gates[0].proposed.id}" if state.open_gates else ""
    raise ApprovalPending(f"run {run_dir.name} waits for a person to decide on {names}", where=where, hint=hint)


def _news(state: RunState) -> bool:
    """Whether a person has decided something since the run ended."""
    for event in reversed(state.events):
        if isinstance(event.data, k.RunFinished):
            return False
        if isinstance(event.data, k.Approved | k.Declined):
            return True
    return False


def take_in_decisions(session: Session) -> None:
    """Take in what people have decided by now. In a running run a bad decision is noted, and its gate stays shut.

    Not while a candidate is between its screen and its verdict: the best that it stands on would change under it.
    """
    if any(c.verdict is None and c.proposed.lane == "agent" for c in session.state.candidates.values()):
        return
    try:
        rulings = take_in(session.ledger, session.authority)
    except ApprovalRefused as error:
        note_once(session, f"{error.message} ({error.where})")
        return
    for ruling in rulings:
        if ruling.event is not None:
            said = "approved" if isinstance(ruling.event, k.Approved) else ruling.event.decision.replace("_", " ")
            session.narrator.line("Decided", f"{ruling.candidate}: {said} by {', '.join(ruling.names)}")


def note_once(session: Session, text: str) -> None:
    """A warning for the ledger and the user, however often its cause is met."""
    if all(note.text != text for note in session.state.notes):
        session.ledger.append(k.Note(topic="warning", text=text))
        session.narrator.line("Refused", text)


def asked_to_go_on(state: RunState) -> bool:
    """Whether a person wants another change instead, and the brain has not been asked since."""
    for event in reversed(state.events):
        if isinstance(event.data, k.PhaseStarted) and event.data.name == "tuning":
            return False
        if isinstance(event.data, k.Declined) and event.data.decision == "request_changes":
            return True
    return False


def reopened(state: RunState) -> bool:
    """Whether the run had ended, waiting for a person, and has entered no phase since."""
    for event in reversed(state.events):
        if isinstance(event.data, k.PhaseStarted):
            return False
        if isinstance(event.data, k.RunFinished):
            return True
    return False
