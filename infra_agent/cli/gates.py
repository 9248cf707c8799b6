"""Finds the gate that a command means, and carries a signed decision into its run.

Covered: `RUN/CANDIDATE`, all open gates of all runs, the checks before and after signing.
Not covered: private keys; the `review` commands hold them.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra_agent.errors import ApprovalRefused, LedgerError, UsageError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import Authority, policies, recorded_policy, request_of
from infra_agent.ledger.decision_files import read_decisions, write_decision
from infra_agent.ledger.decisions import require_sound, rule, take_in
from infra_agent.ledger.lock import has_writer
from infra_agent.ledger.runs import find_run, list_runs
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.ledger.store import Ledger
from infra_agent.publish.publish import load_state, publish
from infra_agent.publish.report.candidates import person_row
from infra_agent.publish.review.pack import CONFIRM_CHARACTERS, ReviewPack, pack_of
from infra_agent.review.approval import MAX_REASON, Decision, Grant, SignedGrant, as_text
from infra_agent.review.keys import PublicKey
from infra_agent.review.local import local_public_key
from infra_agent.review.verify import needed

if TYPE_CHECKING:
    from infra_agent.publish.report.rows import PersonRow
    from infra_agent.review.request import ApprovalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A candidate whose gate has opened, in a run that was read without its lock."""

    run_dir: Path
    state: RunState
    id: str
    authority: Authority

    @property
    def ref(self) -> str:
        """`RUN/CANDIDATE`."""
        return f"{self.run_dir.name}/{self.id}"

    @property
    def candidate(self) -> CandidateState:
        """The candidate as the ledger has it."""
        return self.state.candidates[self.id]

    @property
    def request(self) -> ApprovalRequest:
        """What a person would sign."""
        return request_of(self.state, self.id)

    def pending(self) -> list[PersonRow]:
        """Signed decisions that the run has not taken in yet."""
        if not self.candidate.undecided:
            return []
        found = [decision.signed() for _, decision in read_decisions(self.run_dir)]
        return [person_row(self.id, one, None) for one in found if one.grant.request == self.request.id]

    def persons(self) -> int:
        """How many persons have to approve."""
        return needed(self.request.risk, (recorded_policy(self.state, self.authority.local_key),))

    def pack(self) -> ReviewPack:
        """The evidence."""
        return pack_of(self.run_dir, self.state, self.id, self.pending(), self.persons())

    def require_open(self) -> None:
        """UsageError when there is nothing left to decide."""
        candidate, finished = self.candidate, self.state.finished
        if finished is not None and finished.outcome != "waiting":
            raise UsageError(f"run {self.run_dir.name} has ended: {finished.sentence}", where=str(self.run_dir))
        if candidate.declined is not None:
            said = candidate.declined.decision.replace("_", " ")
            raise UsageError(f"{self.ref} was decided already: {said}", hint=f"infra-agent review show {self.ref}")
        if not candidate.undecided:
            hint = f"infra-agent runs resume {self.run_dir.name}"
            raise UsageError(f"{self.ref} was approved already", hint=hint)

    def refreshed(self) -> Gate:
        """The gate with the user's key as it is now: it may have been made a moment ago."""
        return replace(self, authority=_authority())

    def require_sound(self) -> None:
        """ApprovalRefused when the evidence, the stack or a file is no longer what the request was made from."""
        require_sound(self.run_dir, self.state, self.id)

    def require_reviewer(self, key: PublicKey) -> None:
        """ApprovalRefused when this key may not approve, has done so already, or another decision does not hold."""
        now = self.authority.clock()
        for policy in policies(self.state, self.authority):
            policy.reviewer(key, self.request.risk, now)
        rule(self.run_dir, self.state, self.authority, ignoring=key)
        mine = [row for row in self.pending() if row.fingerprint == key.fingerprint and row.decision == "approve"]
        if any(row.expires > as_text(now) for row in mine) and self.persons() > 1:
            raise ApprovalRefused(f"same person twice: {mine[-1].reviewer} has signed, another person is needed")

    def grant(self, decision: Decision, key: PublicKey, reason: str) -> Grant:
        """The decision to sign, made out to the person whose key it is. ApprovalRefused for a stranger's key."""
        now, policy = self.authority.clock(), recorded_policy(self.state, self.authority.local_key)
        reviewer = policy.reviewer(key, self.request.risk, now).name
        try:
            reason.encode("utf-8")
            return Grant(
                request=self.request.id,
                decision=decision,
                reviewer=reviewer,
                time=as_text(now),
                expires=as_text(now + timedelta(seconds=policy.expires_s)),
                nonce=secrets.token_hex(16),
                reason=reason,
            )
        except ValueError:  # pydantic's own errors are among them
            limit = f"a reason is text of at most {MAX_REASON} characters"
            raise UsageError("the decision cannot be written down", where="--reason", hint=limit) from None

    def record(self, signed: SignedGrant) -> dict[str, Any]:
        """Store the decision and take it in at once, unless a live run holds the lock; what came of it."""
        path = write_decision(self.run_dir, self.request, signed)
        run = self.run_dir.name
        try:
            status, names, following = self._take_in()
        except UsageError as error:
            if isinstance(error, ApprovalRefused) or not has_writer(self.run_dir):
                raise
            names = self._signed() if signed.grant.decision == "approve" else (signed.grant.reviewer,)
            status, following = "stored", f"run {run} takes it in at its next step"
        return {
            "run": run,
            "candidate": self.id,
            "decision": signed.grant.decision,
            "status": status,
            "signed": list(names),
            "needed": self.persons(),
            "reviewer": signed.grant.reviewer,
            "request_id": self.request.id,
            "file": str(path),
            "next": following,
        }

    def _signed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.reviewer for row in self.pending() if row.decision == "approve"))

    def _take_in(self) -> tuple[str, tuple[str, ...], str]:
        with Ledger.open(self.run_dir, self.authority.clock) as ledger:
            rulings = {ruling.candidate: ruling for ruling in take_in(ledger, self.authority)}
            state = ledger.state()
            if state.finished is not None:
                publish(self.run_dir, state)
        ruling = rulings[self.id]
        if ruling.event is None:
            return "waiting", ruling.names, f"{ruling.needed} persons are needed: {ruling.lacking}"
        said = "approved" if isinstance(ruling.event, k.Approved) else ruling.event.decision.replace("_", " ")
        return said, ruling.names, f"infra-agent runs resume {self.run_dir.name}"


def find_gate(root: Path, ref: str) -> Gate:
    """The gate that `RUN/CANDIDATE` names, or the only open one of `RUN`. UsageError, ApprovalRefused."""
    run_ref, slash, wanted = ref.partition("/")
    run_dir = find_run(root, run_ref)
    state = _load(run_dir)
    waiting = [candidate.proposed.id for candidate in state.open_gates]
    known = f"waiting: {', '.join(waiting)}" if waiting else "nothing waits in this run"
    if not slash:
        if len(waiting) != 1:
            raise UsageError(f"{ref!r} names a run, not a change", where=str(run_dir), hint=f"RUN/CANDIDATE; {known}")
        wanted = waiting[0]
    candidate = state.candidates.get(wanted.upper())
    if candidate is None:
        raise UsageError(f"no candidate {wanted!r} in run {run_dir.name}", where=str(run_dir), hint=known)
    if candidate.waiting is None:
        raise UsageError(f"{candidate.proposed.id} does not wait for a person", where=str(run_dir), hint=known)
    return Gate(run_dir=run_dir, state=state, id=candidate.proposed.id, authority=_authority())


def _load(run_dir: Path) -> RunState:
    try:
        return load_state(run_dir)
    except LedgerError as error:
        hint = error.hint or f"infra-agent runs verify {run_dir.name}"
        raise ApprovalRefused(f"evidence digest: {error.message}", where=error.where, hint=hint) from None


def _authority() -> Authority:
    return Authority(local_key=local_public_key())


def waiting_gates(root: Path) -> tuple[list[Gate], list[str]]:
    """All open gates, newest run first, and the runs that could not be read."""
    gates: list[Gate] = []
    unreadable: list[str] = []
    authority = _authority()
    for run in list_runs(root):
        if run.status == "damaged":
            unreadable.append(run.id)
            continue
        try:
            state = load_state(run.path)
        except LedgerError:
            unreadable.append(run.id)
            continue
        if state.finished is not None and state.finished.outcome != "waiting":
            continue
        ids = [candidate.proposed.id for candidate in state.open_gates]
        gates += [Gate(run_dir=run.path, state=state, id=id, authority=authority) for id in ids]
    return gates, unreadable


def gate_row(gate: Gate) -> dict[str, Any]:
    """A gate as one row of a listing."""
    proposed, request = gate.candidate.proposed, gate.request
    opened = next(event.ts for event in gate.state.events if event.data is gate.candidate.waiting)
    try:
        signed = [row.reviewer for row in gate.pending() if row.decision == "approve"]
    except ApprovalRefused:
        signed = []
    return {
        "run": gate.run_dir.name,
        "candidate": proposed.id,
        "title": proposed.title,
        "risk": request.risk,
        "reasons": list(proposed.risk_reasons),
        "signed": signed,
        "needed": gate.persons(),
        "request_id": request.id,
        "confirm": request.id[:CONFIRM_CHARACTERS],
        "since": opened,
        "command": f"infra-agent review show {gate.ref}",
    }
