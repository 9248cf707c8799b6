"""Events at the gate: what was accepted, what waits for a person, and what people decided."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from infra_agent.ledger.payload import EventData
from infra_agent.review.approval import SignedGrant


class Accepted(EventData):
    """A proved candidate became the best. `gate`: why no person had to be asked, or who approved.

    `request`: the approved request, for a candidate of a class that waits for a person.
    """

    kind: ClassVar[str] = "accepted"
    synced: ClassVar[bool] = True
    candidate: str
    gate: str
    elapsed_s: float
    request: str = ""


class WaitingForApproval(EventData):
    """A proved candidate of a gated class. It is not applied; the run goes on without it.

    `request`: id of the approval request; `operands`: sha256 of the files that the run reads; `budget_s`: seconds that
    going on may still spend. Ledgers of version 0.1.0 have none of the three.
    """

    kind: ClassVar[str] = "waiting"
    synced: ClassVar[bool] = True
    candidate: str
    risk: str
    reasons: tuple[str, ...]
    request: str = ""
    operands: dict[str, str] = Field(default_factory=dict)
    budget_s: float = 0.0


class Approved(EventData):
    """As many persons as needed have signed. The grants are spent with this event and with nothing else."""

    kind: ClassVar[str] = "approved"
    synced: ClassVar[bool] = True
    candidate: str
    request: str
    grants: tuple[SignedGrant, ...] = Field(min_length=1)


class Declined(EventData):
    """A person said no: the candidate is closed. With `request_changes` the brain may go on with other proposals."""

    kind: ClassVar[str] = "declined"
    synced: ClassVar[bool] = True
    candidate: str
    request: str
    decision: Literal["reject", "request_changes"]
    reason: str
    grant: SignedGrant
