"""Who may approve what: the reviewers in force for a run, from its `[review]` table or the local user's key.

Covered: keys, classes, validity of a reviewer, how many persons a class needs.
Not covered: reading the table (`stack.files`), and signatures (`review.verify`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import rfc8785

from infra_agent.errors import ApprovalRefused
from infra_agent.review.approval import MAX_NAME
from infra_agent.review.keys import PublicKey
from infra_agent.stack.model import WEEK_S, ReviewTable
from infra_agent.stack.publickey import read_key_line

LOCAL = "this user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """One key of one person. `classes` None: every class."""

    name: str
    key: PublicKey
    classes: frozenset[str] | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The reviewers, the persons that a class needs, and how long a signature may be used."""

    reviewers: tuple[Reviewer, ...] = ()
    required: Mapping[str, int] = field(default_factory=dict)
    expires_s: float = WEEK_S
    local: bool = False
    """Whether it is the local user's own key, for want of a table."""

    def needed(self, risk: str) -> int:
        """Persons who have to approve a change of this class."""
        return self.required.get(risk, 1)

    def reviewer(self, key: PublicKey, risk: str, now: datetime) -> Reviewer:
        """The person whose key this is, if they may approve that class now. ApprovalRefused says why not."""
        own = [reviewer for reviewer in self.reviewers if reviewer.key == key]
        if not own:
            own_key = "without a [review] table only this user's own key counts: infra-agent review key"
            hint = own_key if self.local else "the [review] table of the stack file names them"
            raise ApprovalRefused(f"the key {key.fingerprint} belongs to no reviewer of this run", hint=hint)
        able = [reviewer for reviewer in own if reviewer.classes is None or risk in reviewer.classes]
        if not able:
            raise ApprovalRefused(f"{own[0].name} may not approve changes of class {risk}")
        valid = [reviewer for reviewer in able if _in_force(reviewer, now)]
        if not valid:
            raise ApprovalRefused(f"{own[0].name} is not a reviewer at this time")
        return valid[0]


def policy_of(table: ReviewTable | None, local_key: str) -> Policy:
    """The policy of a `[review]` table, or of the local user's public key line (empty: nobody).

    ApprovalRefused for keys and times that cannot be read: a ledger may have been written by anybody.
    """
    try:
        return _local_policy(local_key) if table is None else _table_policy(table)
    except ValueError as error:
        raise ApprovalRefused(f"reviewers: {error}") from None


def _local_policy(local_key: str) -> Policy:
    if not local_key:
        return Policy(local=True)
    line = read_key_line(local_key)
    return Policy(reviewers=(Reviewer(name=line.comment[:MAX_NAME] or LOCAL, key=PublicKey(line.blob)),), local=True)


def _table_policy(table: ReviewTable) -> Policy:
    if table.allowed_signers is not None:
        raise ApprovalRefused("the allowed_signers file of [review] was never read")
    reviewers = tuple(
        Reviewer(
            name=entry.name,
            key=PublicKey.of_line(entry.key),
            classes=frozenset(entry.classes) if entry.classes is not None else None,
            valid_from=_moment(entry.valid_from),
            valid_until=_moment(entry.valid_until),
        )
        for entry in table.reviewers
    )
    required = {str(name): count for name, count in table.required.items()}
    return Policy(reviewers=reviewers, required=required, expires_s=table.expires_s)


def policy_digest(table: ReviewTable | None, local_key: str) -> str:
    """SHA-256 of what a policy is made from, so that a request is bound to who may answer it."""
    document = table.model_dump(mode="json") if table is not None else {"local": local_key}
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _in_force(reviewer: Reviewer, now: datetime) -> bool:
    begun = reviewer.valid_from is None or reviewer.valid_from <= now
    return begun and (reviewer.valid_until is None or now < reviewer.valid_until)
