"""Consent that a ledger holds already: who gave it, and whether signature, person and binding still stand.

A fold sees only that an approval was recorded. Before a gated change is used again (a resumed run, a served stack, a
verification), the signatures are checked from the ledger's own text.
Covered: approvals and refusals in a ledger. Not covered: decisions not yet taken in (`ledger.decisions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from infra_agent.errors import ApprovalRefused, InfraAgentError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import Authority, recorded_policy, request_of, require_unchanged
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.review.approval import SignedGrant
from infra_agent.review.verify import check_decision, check_persons, signer


def consent_of(candidate: CandidateState) -> k.Approved | k.Declined | None:
    """What a person has decided on a candidate, as far as the ledger says."""
    return candidate.approved or candidate.declined


def grants_of(consent: k.Approved | k.Declined) -> tuple[SignedGrant, ...]:
    """The signed decisions behind it."""
    return consent.grants if isinstance(consent, k.Approved) else (consent.grant,)


def consent_fault(state: RunState, id: str, authority: Authority | None = None) -> str | None:
    """What is wrong with the consent on a candidate; None when it holds or there is none.

    Without an authority (offline) a run that recorded no reviewer key is checked against the key that signed.
    """
    consent = consent_of(state.candidates[id])
    if consent is None:
        return None
    try:
        return _fault(state, id, consent, authority)
    except ApprovalRefused as error:
        return error.what
    except InfraAgentError as error:
        return error.message


def _fault(state: RunState, id: str, consent: k.Approved | k.Declined, authority: Authority | None) -> str | None:
    signed, at = grants_of(consent), _moment(state, consent)
    request = request_of(state, id)
    risk = request.risk
    if consent.request != request.id:
        return "request digest: the decision was made on something else"
    wanted = consent.decision if isinstance(consent, k.Declined) else "approve"
    policy = recorded_policy(state, authority.local_key if authority is not None else signer(signed[0]).line)
    for one in signed:
        if one.grant.decision != wanted:
            return f"signature of {one.grant.reviewer}: signed is {one.grant.decision!r}, recorded is {wanted!r}"
        check_decision(one, request.id, risk, [policy], at, used=())
    if isinstance(consent, k.Approved):
        check_persons(signed, risk, [policy])
    elif consent.reason != consent.grant.grant.reason:
        return f"signature of {consent.grant.grant.reviewer}: another reason was signed"
    return None


def _moment(state: RunState, consent: k.Approved | k.Declined) -> datetime:
    """When it was taken into the ledger: the time at which it had to hold."""
    stamp = next(event.ts for event in state.events if event.data is consent)
    return datetime.fromisoformat(stamp)


def require_consent(run_dir: Path, state: RunState, ids: Iterable[str], authority: Authority) -> None:
    """ApprovalRefused unless each gated candidate among these was approved and is still what was approved."""
    for id in ids:
        candidate = state.candidates.get(id)
        if candidate is None or candidate.waiting is None:
            continue
        fault = consent_fault(state, id, authority) if candidate.approved is not None else f"{id} was not approved"
        if fault is not None:
            raise ApprovalRefused(fault, where=str(run_dir), hint=f"infra-agent runs verify {run_dir.name}")
        require_unchanged(run_dir, state, id)
