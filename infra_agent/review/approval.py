"""A person's decision: what it says, and the signature under it.

A decision is a small document of its own, signed as canonical JSON. It names the request by its digest, so it can be
used for that request and for nothing else; its nonce makes it usable once; `expires` ends it.
Covered: the form of decisions and of the files that carry them.
Not covered: whether one may be relied on (`review.verify`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra_agent.errors import ApprovalRefused
from infra_agent.review.request import document_id

Decision = Literal["approve", "reject", "request_changes"]
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
MAX_REASON = 2000
MAX_NAME = 80
MAX_FILE_BYTES = 200_000
_DIGEST = r"^[0-9a-f]{64}$"
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Grant(_Model):
    """What is signed. `time` and `expires` are UTC to the second."""

    version: Literal[1] = 1
    request: str = Field(pattern=_DIGEST)
    decision: Decision
    reviewer: str = Field(min_length=1, max_length=MAX_NAME)
    time: str = Field(pattern=_TIME)
    expires: str = Field(pattern=_TIME)
    nonce: str = Field(pattern=r"^[0-9a-f]{32}$")
    reason: str = Field(default="", max_length=MAX_REASON)

    def canonical(self) -> bytes:
        """The bytes that are signed."""
        return rfc8785.dumps(self.model_dump(mode="json"))


class SignedGrant(_Model):
    """A grant with its signature (SSHSIG)."""

    grant: Grant
    signature: str = Field(max_length=20_000)


class DecisionFile(SignedGrant):
    """What stands in `approvals/`: the signed grant, and the request as the person saw it."""

    request: dict[str, Any]

    @property
    def whole(self) -> bool:
        """Whether the request in the file is the one that was signed."""
        try:
            return document_id(self.request) == self.grant.request
        except (ValueError, RecursionError):
            return False

    def signed(self) -> SignedGrant:
        """The part that goes into the ledger."""
        return SignedGrant(grant=self.grant, signature=self.signature)


def as_text(moment: datetime) -> str:
    """A time as grants write it."""
    return moment.astimezone(UTC).strftime(TIME_FORMAT)


def as_time(text: str) -> datetime:
    """A time as grants write it, read back; ValueError for the 30th of February."""
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)


def read_decision(raw: bytes, where: str) -> DecisionFile:
    """A decision file's content. ApprovalRefused names the first fault."""
    try:
        return DecisionFile.model_validate(json.loads(raw))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ApprovalRefused(f"the decision file is not well formed: {place}: {first['msg']}", where=where) from None
    except (ValueError, RecursionError):
        raise ApprovalRefused("the decision file is not readable JSON", where=where) from None
