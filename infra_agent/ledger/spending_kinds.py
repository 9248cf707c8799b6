"""Events of the budget: what was reserved before an act, and what it took."""

from __future__ import annotations

from typing import ClassVar

from infra_agent.ledger.payload import EventData, NotNegative, SpendKind


class BudgetReserved(EventData):
    """Set aside before it is spent; on the disk before anything is done. It counts in full until it is settled."""

    kind: ClassVar[str] = "budget_reserved"
    synced: ClassVar[bool] = True
    ended_by: ClassVar[tuple[str, ...]] = ("budget_settled",)
    id: str
    what: str
    amounts: dict[SpendKind, NotNegative]


class BudgetSettled(EventData):
    """What a reservation really used: failures, cut streams and unreadable answers are charged like any other."""

    kind: ClassVar[str] = "budget_settled"
    id: str
    amounts: dict[SpendKind, NotNegative]
    outcome: str = ""
