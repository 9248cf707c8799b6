"""The one place where people's decisions become events.

They are taken in by whoever holds the run's writer lock: the review command when nobody else does, a live run between
two steps, or `runs resume`. Everything is checked anew in that moment, and `approved` is followed by `accepted` at
once; a crash between the two is healed by the next writer.
Covered: judging and taking in decisions. Not covered: the files (`ledger.decision_files`), keys (`review.sign`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra_agent.errors import ApprovalRefused
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import Authority, policies, recorded_policy, request_of, require_unchanged
from infra_agent.ledger.chain import read_chain
from infra_agent.ledger.consent import require_consent
from infra_agent.ledger.decision_files import REMOVE, read_decisions
from infra_agent.ledger.state import RunState
from infra_agent.ledger.store import Ledger
from infra_agent.ledger.verify import evidence_fault
from infra_agent.review.approval import DecisionFile, SignedGrant
from infra_agent.review.keys import PublicKey
from infra_agent.review.policy import Policy
from infra_agent.review.request import difference
from infra_agent.review.verify import check_decision, check_persons, needed, signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the decision files say on one open gate: the event to record, or how many persons have signed so far."""

    candidate: str
    event: k.Approved | k.Declined | None
    names: tuple[str, ...] = ()
    needed: int = 1
    lacking: str = ""
    """Why there is no event yet."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A decision file, and the key that signed it."""

    path: Path
    decision: DecisionFile
    key: PublicKey

    @property
    def age(self) -> tuple[str, int]:
        """Sort key: the newer, the larger."""
        number = self.path.name.split(".")[-2]
        return self.decision.grant.time, int(number) if number.isdecimal() else 0


def rule(run_dir: Path, state: RunState, authority: Authority, ignoring: PublicKey | None = None) -> list[Ruling]:
    """What the decision files say, gate by gate. Changes nothing; ApprovalRefused for the first that does not hold.

    `ignoring`: a key whose decisions are left out, because its owner is about to replace them.
    """
    cast: dict[str, list[_Found]] = {}
    for path, decision in read_decisions(run_dir):
        try:
            id = _gate_of(state, decision)
            if not state.candidates[id].undecided:
                continue
            key = signer(decision.signed())
        except ApprovalRefused as error:
            raise _at(error, path) from None
        if key != ignoring:
            cast.setdefault(id, []).append(_Found(path, decision, key))
    return [_ruling(run_dir, state, id, found, authority) for id, found in cast.items()]


def _at(error: ApprovalRefused, path: Path) -> ApprovalRefused:
    return ApprovalRefused(error.what, where=error.where or str(path), hint=error.hint or REMOVE)


def _gate_of(state: RunState, decision: DecisionFile) -> str:
    """The candidate that a decision is for: its gate opened in this run, with exactly this request."""
    document = decision.request
    if not decision.whole:
        raise ApprovalRefused("request digest: the request in the file is not the one that was signed")
    if document.get("run") != state.started.run_id:
        raise ApprovalRefused(f"run id: signed for run {document.get('run')}, this is {state.started.run_id}")
    id = str(document.get("candidate"))
    candidate = state.candidates.get(id)
    if candidate is None or candidate.waiting is None:
        raise ApprovalRefused(f"candidate id: signed for {id}, which does not wait in this run")
    part = difference(document, request_of(state, id).document())
    if part is not None:
        raise ApprovalRefused(f"{part}: {id} is not what was signed")
    return id


def _ruling(run_dir: Path, state: RunState, id: str, found: list[_Found], authority: Authority) -> Ruling:
    """Of each key the newest decision counts; one no ends it; a yes needs persons, and everything as it was."""
    newest = {each.key: each for each in sorted(found, key=lambda each: each.age)}
    valid = [_checked(each, state, id, authority) for each in newest.values()]
    request = request_of(state, id)
    refusal = next((each.grant for each in valid if each.grant.decision != "approve"), None)
    if refusal is not None:
        signed = next(each for each in valid if each.grant is refusal)
        event = k.Declined(
            candidate=id, request=request.id, decision="reject" if refusal.decision == "reject" else "request_changes",
            reason=refusal.reason, grant=signed,
        )  # fmt: skip
        return Ruling(candidate=id, event=event, names=(refusal.reviewer,))
    in_force, risk = policies(state, authority), request.risk
    names = tuple(dict.fromkeys(each.grant.reviewer for each in valid))
    try:
        check_persons(valid, risk, in_force)
    except ApprovalRefused as error:
        lacking = _why_lacking([each.decision.signed() for each in found], risk, in_force) or error.what
        return Ruling(candidate=id, event=None, names=names, needed=needed(risk, in_force), lacking=lacking)
    require_sound(run_dir, state, id)
    return Ruling(candidate=id, event=k.Approved(candidate=id, request=request.id, grants=tuple(valid)), names=names)


def _checked(found: _Found, state: RunState, id: str, authority: Authority) -> SignedGrant:
    signed = found.decision.signed()
    risk = request_of(state, id).risk
    # A no binds nobody to anything: for that it is enough to have been a reviewer from the start.
    yes = signed.grant.decision == "approve"
    in_force = policies(state, authority) if yes else (recorded_policy(state, authority.local_key),)
    try:
        check_decision(signed, signed.grant.request, risk, in_force, authority.clock(), state.nonces)
    except ApprovalRefused as error:
        raise _at(error, found.path) from None
    return signed


def _why_lacking(every: Sequence[SignedGrant], risk: str, in_force: Sequence[Policy]) -> str:
    """The reason with older decisions of the same people counted in: somebody may have signed twice."""
    try:
        check_persons([each for each in every if each.grant.decision == "approve"], risk, in_force)
    except ApprovalRefused as error:
        return error.what
    return ""


def require_sound(run_dir: Path, state: RunState, id: str) -> None:
    """ApprovalRefused unless the evidence on the disk is whole and everything the request is bound to is as it was."""
    fault = evidence_fault(run_dir)
    if fault is not None:
        hint = f"infra-agent runs verify {run_dir.name}"
        raise ApprovalRefused(f"evidence digest: {fault}", where=str(run_dir), hint=hint)
    require_unchanged(run_dir, state, id)


def require_readable(run_dir: Path) -> None:
    """ApprovalRefused when decisions lie on the table and the ledger that they are about was changed."""
    chain = read_chain(run_dir)
    if chain.problems and read_decisions(run_dir):
        hint = f"infra-agent runs verify {run_dir.name}"
        raise ApprovalRefused(f"evidence digest: {chain.problems[0].what}", where=str(run_dir), hint=hint)


def take_in(ledger: Ledger, authority: Authority) -> list[Ruling]:
    """Record what was decided, and apply what was approved. ApprovalRefused, with nothing recorded, when one fails."""
    heal(ledger, authority)
    rulings = rule(ledger.run_dir, ledger.state(), authority)
    for ruling in rulings:
        if ruling.event is None:
            continue
        ledger.append(ruling.event)
        if isinstance(ruling.event, k.Approved) and stands_on_best(ledger.state(), ruling.candidate):
            _accept(ledger, ruling.candidate)
    return rulings


def heal(ledger: Ledger, authority: Authority) -> None:
    """After a crash between the two events: what was approved becomes the best, if it still is what was approved."""
    state = ledger.state()
    for id, candidate in state.candidates.items():
        if candidate.approved is not None and candidate.accepted is None and stands_on_best(ledger.state(), id):
            require_consent(ledger.run_dir, state, [id], authority)
            _accept(ledger, id)


def stands_on_best(state: RunState, id: str) -> bool:
    """Whether a candidate was proved on what is the best now: applying it then is what was measured."""
    return state.candidates[id].proposed.base == state.best


def _accept(ledger: Ledger, id: str) -> None:
    state = ledger.state()
    approved = state.candidates[id].approved
    if approved is None:
        raise ApprovalRefused(f"{id} was not approved")
    by = ", ".join(f"{one.grant.reviewer} ({signer(one).fingerprint})" for one in approved.grants)
    ledger.append(
        k.Accepted(candidate=id, gate=f"approved by {by}", elapsed_s=state.elapsed_s, request=approved.request)
    )
