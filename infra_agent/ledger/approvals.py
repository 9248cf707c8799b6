"""What a gate asks a person, worked out again from the ledger, and whether everything it is bound to is still so.

Covered: the request of a candidate; digests of the files that a run reads; the comparison with what lies on the disk
now; the policies that a decision has to satisfy.
Not covered: decision files (`ledger.decisions`), consent that the ledger holds already (`ledger.consent`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra_agent.changes.change import settings_digest
from infra_agent.errors import ApprovalRefused, ConfigError, UsageError
from infra_agent.ledger import artifacts
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import Evidence, RunState
from infra_agent.review.effects import Effect
from infra_agent.review.policy import Policy, policy_digest, policy_of
from infra_agent.review.request import ApprovalRequest
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.files import DEMO, load_stack
from infra_agent.stack.hashing import sha256_file
from infra_agent.stack.model import Stack
from infra_agent.stack.secrets import restored_stack

_OWN_FILES = ("goal.toml", "stack.toml", "script.toml")


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Who is in force here and now: this user's public key line (empty: none), and the clock."""

    local_key: str = ""
    clock: Callable[[], datetime] = _utc_now


def patches_of(proposed: k.CandidateProposed) -> tuple[str, ...]:
    """SHA-256 of the candidate's patches, in the order in which they apply; empty when only parameters change."""
    return proposed.patches


def operand_digests(run_dir: Path, stack: Stack) -> dict[str, str]:
    """Name → sha256 of every file that the run reads again when it goes on. UsageError when one cannot be read."""
    files = {name: run_dir / name for name in _OWN_FILES if (run_dir / name).exists()}
    for name, prompts in (("workload.prompts", stack.workload.prompts), ("reference.prompts", stack.reference.prompts)):
        if not prompts.startswith("builtin:"):
            files[name] = Path(prompts)
    try:
        return {name: sha256_file(path) for name, path in files.items()}
    except OSError as error:
        raise UsageError(f"a file that the run reads cannot be read: {error}", where=str(run_dir)) from error


def gate_event(run_dir: Path, state: RunState, id: str) -> k.WaitingForApproval:
    """The event that opens a candidate's gate now, with the request that a person is asked to sign."""
    proposed = state.candidates[id].proposed
    waiting = k.WaitingForApproval(
        candidate=id,
        risk=proposed.risk,
        reasons=proposed.risk_reasons,
        operands=operand_digests(run_dir, state.started.stack),
        budget_s=float(max(0, round(state.started.budget_s - state.elapsed_s))),
    )
    request = _request(state, proposed, waiting, Evidence(state.head_seq, state.head_hash))
    return waiting.model_copy(update={"request": request.id})


def request_of(state: RunState, id: str) -> ApprovalRequest:
    """The request of a candidate whose gate has opened, from the ledger alone."""
    candidate = state.candidates[id]
    if candidate.waiting is None or candidate.evidence is None:
        raise UsageError(f"{id} does not wait for a person")
    return _request(state, candidate.proposed, candidate.waiting, candidate.evidence)


def _request(
    state: RunState, proposed: k.CandidateProposed, waiting: k.WaitingForApproval, evidence: Evidence
) -> ApprovalRequest:
    started = state.started
    return ApprovalRequest(
        run=started.run_id,
        candidate=proposed.id,
        stack=started.stack_digest,
        patches=patches_of(proposed),
        settings=proposed.settings,
        candidate_digest=proposed.digest,
        risk=waiting.risk,
        evidence_seq=evidence.seq,
        evidence_hash=evidence.hash,
        operands=waiting.operands,
        effect=Effect.APPLY,
        budget_s=waiting.budget_s,
        reviewers=policy_digest(started.stack.review, started.reviewer_key),
    )


def recorded_policy(state: RunState, local_key: str) -> Policy:
    """The reviewers that the ledger named before anything was spent."""
    started = state.started
    return policy_of(started.stack.review, started.reviewer_key or local_key)


def policies(state: RunState, authority: Authority) -> tuple[Policy, ...]:
    """All that a decision must satisfy: the policy recorded at the start, and the one in force today."""
    recorded = recorded_policy(state, authority.local_key)
    if not stack_file(state.started):
        current = [policy_of(None, authority.local_key)] if recorded.local and authority.local_key else []
        return (recorded, *current)
    return (recorded, policy_of(_stack_now(state.started).review, authority.local_key))


def stack_file(started: k.RunStarted) -> str:
    """The file that the stack was read from; empty for the embedded demo."""
    return "" if started.stack_source == DEMO else started.stack_source


def _recorded_stack(started: k.RunStarted) -> Stack:
    """The stack that was measured, with the secrets that the ledger does not hold."""
    try:
        return restored_stack(started.stack, started.stack_digest, started.stack_source, os.environ)
    except ConfigError as error:
        raise ApprovalRefused(f"stack digest: {error.message}", where=error.where, hint=error.hint) from None


def _stack_now(started: k.RunStarted) -> Stack:
    try:
        return load_stack(Path(stack_file(started)))
    except ConfigError as error:
        hint = "put the stack file back as it was when the run began"
        raise ApprovalRefused(f"stack file: {error.message}", where=error.where, hint=hint) from None


def require_unchanged(run_dir: Path, state: RunState, id: str) -> None:
    """ApprovalRefused unless stack, settings, patches and operand files are what the request was made from."""
    candidate = state.candidates[id]
    waiting, proposed = candidate.waiting, candidate.proposed
    if waiting is None:
        raise ApprovalRefused(f"{id} never waited for a person")
    if waiting.request and waiting.request != request_of(state, id).id:
        raise ApprovalRefused("request digest: the ledger does not describe the request that it names")
    _require_stack(state.started)
    patches = patches_of(proposed)
    if settings_digest(state.started.stack_digest, proposed.settings, patches) != proposed.digest:
        raise ApprovalRefused("candidate digest: settings and patches are not those that were measured")
    for patch in patches:
        fault = artifacts.fault(run_dir, patch)
        if fault is not None:
            raise ApprovalRefused(f"patch digest: {fault}", where=str(run_dir))
    _require_operands(waiting.operands, operand_digests(run_dir, state.started.stack), run_dir)


def _require_stack(started: k.RunStarted) -> None:
    """The stack as recorded with the weights of now, and the stack file as it is now, must be what was measured."""
    source = stack_file(started)
    stacks = {"": _recorded_stack(started)}
    if source:
        stacks[source] = _stack_now(started)
    for where, stack in stacks.items():
        try:
            found = stack_digest(stack, {})
        except ConfigError as error:
            raise ApprovalRefused(f"stack digest: {error.message}", where=error.where) from None
        if found != started.stack_digest:
            what = "the stack file describes another stack" if where else "the model's files have changed"
            raise ApprovalRefused(
                f"stack digest: {what} ({found[:12]} now, {started.stack_digest[:12]} was measured)",
                where=where or started.stack.model,
                hint="put it back as it was, or begin a new run",
            )


def _require_operands(then: Mapping[str, str], now: Mapping[str, str], run_dir: Path) -> None:
    for name in sorted(then.keys() | now.keys()):
        # Ledgers of version 0.1.0 name no operands: there is nothing to compare with.
        if then and then.get(name) != now.get(name):
            how = "is missing" if name not in now else "was added" if name not in then else "was changed"
            raise ApprovalRefused(f"operand digest: {name} {how} since the gate opened", where=str(run_dir))
