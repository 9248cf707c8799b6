"""Which accepted changes a pull request holds: those from stock to the run's best, each routine or approved.

Covered: order, consent (checked again from the signatures); a fold accepts no gated change that was never approved.
Not covered: what is in the changes (`branch`, `artefacts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra_agent.changes.change import STOCK
from infra_agent.errors import LedgerError, UsageError
from infra_agent.ledger.approvals import Authority
from infra_agent.ledger.consent import require_consent
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.ledger.verify import verify


def accepted_chain(run_dir: Path, state: RunState, authority: Authority) -> tuple[CandidateState, ...]:
    """The accepted candidates in the order in which they were put on top of each other.

    UsageError without any, LedgerError for a run that does not verify, ApprovalRefused where a consent does not hold.
    """
    found = verify(run_dir)
    if not found.ok:
        first = found.problems[0]
        raise LedgerError(
            f"run {run_dir.name} does not verify: {first.what}",
            where=f"{run_dir}, event {first.seq}",
            hint=f"infra-agent runs verify {run_dir.name}",
        )
    if state.finished is None:
        hint = f"infra-agent runs resume {run_dir.name}"
        raise UsageError(f"run {run_dir.name} has not ended", where=str(run_dir), hint=hint)
    chain: list[CandidateState] = []
    name = state.best
    while name != STOCK:
        candidate = state.candidates[name]
        _require_accepted(candidate)
        chain.append(candidate)
        name = candidate.proposed.base
    if not chain:
        waiting = [candidate.proposed.id for candidate in state.open_gates]
        hint = f"infra-agent review show {run_dir.name}/{waiting[0]}" if waiting else "see: infra-agent report"
        said = f"{', '.join(waiting)} waits for a person" if waiting else "it accepted no change"
        raise UsageError(f"run {run_dir.name} has nothing to propose: {said}", where=str(run_dir), hint=hint)
    _require_relaunched(run_dir, state, chain)
    require_consent(run_dir, state, [candidate.proposed.id for candidate in chain], authority)
    return tuple(reversed(chain))


def _require_relaunched(run_dir: Path, state: RunState, chain: Sequence[CandidateState]) -> None:
    """UsageError for a change that was approved after the run's end: it was not relaunched beside stock yet."""
    ended = max(event.seq for event in state.events if event.data is state.finished)
    seen = {id(event.data): event.seq for event in state.events}
    late = [candidate.proposed.id for candidate in chain if seen.get(id(candidate.accepted), 0) > ended]
    if late:
        hint = f"infra-agent runs resume {run_dir.name}"
        raise UsageError(f"{', '.join(late)} was approved and not relaunched beside stock yet", hint=hint)


def _require_accepted(candidate: CandidateState) -> None:
    proposed = candidate.proposed
    if candidate.accepted is None:
        raise UsageError(f"{proposed.id} is part of the best and was not accepted by itself: nothing is proposed")
