"""Whether decisions may be relied on: signature, person, class, time, single use, and how many persons.

Pure: no file, no clock, no private key. Each refusal is an ApprovalRefused that names the rule that was broken.
Covered: one decision, and the persons that a class needs. Not covered: whether the request still describes what lies on
the disk (`ledger.approvals`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from infra_agent.errors import ApprovalRefused
from infra_agent.review import sshsig
from infra_agent.review.approval import SignedGrant, as_text, as_time
from infra_agent.review.keys import PublicKey
from infra_agent.review.policy import Policy

SKEW = timedelta(minutes=2)
"""How far the signer's clock may be ahead of this one."""


def signer(signed: SignedGrant) -> PublicKey:
    """The key under a decision. ApprovalRefused when the signature does not hold for what the decision says."""
    try:
        return sshsig.check(signed.grant.canonical(), signed.signature)
    except ValueError as error:
        raise ApprovalRefused(f"signature of {signed.grant.reviewer}: {error}") from None


def check_decision(
    signed: SignedGrant, request_id: str, risk: str, policies: Sequence[Policy], now: datetime, used: Collection[str]
) -> PublicKey:
    """The key of a decision that may be relied on now. `used`: nonces that were spent already.

    Every one of the policies must admit it: the one recorded at the run's start, and the one in force today.
    """
    grant = signed.grant
    if grant.request != request_id:
        raise ApprovalRefused(f"request digest: signed for {grant.request[:12]}, this is {request_id[:12]}")
    key = signer(signed)
    if not policies:
        raise ApprovalRefused("no reviewers are in force")
    for policy in policies:
        person = policy.reviewer(key, risk, now)
        if person.name != grant.reviewer and not policy.local:
            raise ApprovalRefused(f"reviewer: signed as {grant.reviewer!r} with the key of {person.name!r}")
        _check_times(signed, policy, now)
    if grant.nonce in used:
        raise ApprovalRefused(f"replayed nonce: this decision of {grant.reviewer} was used before")
    return key


def _check_times(signed: SignedGrant, policy: Policy, now: datetime) -> None:
    grant = signed.grant
    try:
        begin, end = as_time(grant.time), as_time(grant.expires)
    except ValueError:
        raise ApprovalRefused(f"time: {grant.time} or {grant.expires} is no time") from None
    if begin > now + SKEW:
        raise ApprovalRefused(f"time: signed at {grant.time}, which lies in the future ({as_text(now)} now)")
    if end <= now:
        hint = "approve it again"
        raise ApprovalRefused(f"expired: the decision of {grant.reviewer} ended at {grant.expires}", hint=hint)
    if end - begin > timedelta(seconds=policy.expires_s + 1):
        raise ApprovalRefused(f"expiry: {grant.reviewer} signed for longer than the {policy.expires_s:.0f} s allowed")


def needed(risk: str, policies: Sequence[Policy]) -> int:
    """Persons that every policy is content with."""
    return max((policy.needed(risk) for policy in policies), default=1)


def check_persons(approvals: Sequence[SignedGrant], risk: str, policies: Sequence[Policy]) -> None:
    """ApprovalRefused unless as many different persons have approved as the class needs."""
    names = [signed.grant.reviewer for signed in approvals]
    keys = {signer(signed) for signed in approvals}
    persons = min(len(set(names)), len(keys))
    wanted = needed(risk, policies)
    if persons >= wanted:
        return
    if len(names) > persons:
        twice = max(set(names), key=names.count)
        raise ApprovalRefused(f"same person twice: {twice} signed more than once, and {wanted} persons are needed")
    by = ", ".join(names) or "nobody"
    raise ApprovalRefused(f"persons: changes of class {risk} need {wanted}, and {persons} approved ({by})")
