"""Where reservations are written: the run's ledger, or memory where there is no run."""

from __future__ import annotations

from typing import Protocol

from infra_agent.ledger import kinds as k
from infra_agent.ledger.spending import Spending
from infra_agent.ledger.store import Ledger


class Book(Protocol):
    """Keeps the events of one budget and says what they add up to."""

    def spending(self) -> Spending:
        """What is spent and set aside now."""
        ...

    def write(self, event: k.BudgetReserved | k.BudgetSettled) -> None:
        """Keep one more event."""
        ...


class LedgerBook:
    """Events in the run's ledger: what a killed process had set aside is still there on resume."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def spending(self) -> Spending:
        """The ledger's fold."""
        return self._ledger.state().spending

    def write(self, event: k.BudgetReserved | k.BudgetSettled) -> None:
        """Append; a reservation is on the disk when this returns."""
        self._ledger.append(event)


class MemoryBook:
    """For work outside a run; forgotten with the process."""

    def __init__(self) -> None:
        self._spending = Spending()

    def spending(self) -> Spending:
        """What was written so far."""
        return self._spending

    def write(self, event: k.BudgetReserved | k.BudgetSettled) -> None:
        """Fold one event."""
        amounts = {str(kind): amount for kind, amount in event.amounts.items()}
        change = self._spending.reserve if isinstance(event, k.BudgetReserved) else self._spending.settle
        self._spending = change(event.id, amounts)
