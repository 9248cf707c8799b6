"""The budget of a run: wall clock, and whatever else has a cap. Hard ceilings, checked before each spend.

reserve → act → settle: a reservation that would pass a cap is refused with BudgetSpent before anything is done. It is
written before the act, counts in full until it is settled, and is settled with what was really used.

Covered: several threads at once (together they never pass a cap), a process killed between reservation and settlement,
failures and cut answers (charged). Sub-agents and helpers are given this object: there is no allowance of their own.
Not covered: an act that uses more than it reserved; it is charged in full, so a cap is passed by one act at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from infra_agent.errors import BudgetSpent
from infra_agent.goal.model import SpendingCaps
from infra_agent.harness.budget.book import Book, MemoryBook
from infra_agent.harness.budget.reservation import Reservation
from infra_agent.harness.budget.units import CAPS, Cap
from infra_agent.ledger import kinds as k
from infra_agent.ledger.kinds import SpendKind
from infra_agent.ledger.spending import Spending

_ROUNDING = 1e-9


class Budget:
    """Counts seconds from its creation, plus what earlier sessions of the run have spent; all else from its book."""

    def __init__(
        self,
        limit_s: float,
        clock: Callable[[], float],
        spent_s: float = 0.0,
        *,
        caps: SpendingCaps | None = None,
        book: Book | None = None,
    ) -> None:
        self.limit_s = limit_s
        self.caps = caps or SpendingCaps()
        self._clock = clock
        self._start = clock() - spent_s
        self._book = book or MemoryBook()
        self._one_at_a_time = threading.Lock()

    def elapsed_s(self) -> float:
        """Seconds used so far, all sessions together."""
        return self._clock() - self._start

    def remaining_s(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self.limit_s - self.elapsed_s())

    def require(self, needed_s: float, what: str) -> None:
        """Raise BudgetSpent unless `needed_s` are left."""
        left_s = self.remaining_s()
        if left_s < needed_s:
            raise BudgetSpent(
                f"{what} needs about {needed_s:.0f} s, and {left_s:.0f} s of {self.limit_s:.0f} s are left",
                hint="give a larger budget, e.g. --budget 20m",
            )

    def require_turn(self, turns: int) -> None:
        """Raise BudgetSpent when a brain has had all its turns; `turns` counts those of the ledger."""
        if self.caps.turns is not None and turns >= self.caps.turns:
            raise BudgetSpent(
                f"the brain has had its {self.caps.turns} turns", hint="raise budget.turns in the goal file"
            )

    def reserve(self, kind: SpendKind, amount: float, what: str = "the next step") -> Reservation:
        """Set an amount aside, or raise BudgetSpent. `what` says what for, in a few words."""
        return self.reserve_all({kind: amount}, what)

    def reserve_all(self, amounts: Mapping[SpendKind, float], what: str = "the next step") -> Reservation:
        """Set several amounts aside at once: all of them, or none and BudgetSpent."""
        with self._one_at_a_time:
            spending = self._book.spending()
            self._require_room(spending, amounts, what)
            id = f"B{spending.reservations + 1}"
            self._book.write(k.BudgetReserved(id=id, what=what, amounts=dict(amounts)))
        return Reservation(id, amounts, self._settle)

    def spent(self, *kinds: SpendKind) -> float:
        """Spent and set aside so far, summed over these kinds."""
        return self._book.spending().total(*kinds)

    def left(self, cap: str) -> float | None:
        """What is left under a cap (`usd`, `tokens`, `launches`, `disk_bytes`, `gpu_s`); None without one."""
        found = CAPS[cap]
        limit = found.limit(self.caps)
        return None if limit is None else max(0.0, limit - self.spent(*found.kinds))

    def _require_room(self, spending: Spending, amounts: Mapping[SpendKind, float], what: str) -> None:
        if self.remaining_s() <= 0:
            raise BudgetSpent(
                f"{what}: all {self.limit_s:.0f} s are used", hint="give a larger budget, e.g. --budget 20m"
            )
        for cap in CAPS.values():
            limit, asked = cap.limit(self.caps), sum(amounts.get(kind, 0.0) for kind in cap.kinds)
            used = spending.total(*cap.kinds)
            if limit is not None and asked > 0 and used + asked > limit * (1 + _ROUNDING):
                raise _refusal(cap, what, asked, max(0.0, limit - used), limit)

    def _settle(self, id: str, amounts: Mapping[SpendKind, float], outcome: str) -> None:
        with self._one_at_a_time:
            self._book.write(k.BudgetSettled(id=id, amounts=dict(amounts), outcome=outcome))


def _refusal(cap: Cap, what: str, asked: float, left: float, limit: float) -> BudgetSpent:
    words = f"{what} needs up to {cap.show(asked)}, and {cap.bare(left)} of {cap.bare(limit)} are left"
    return BudgetSpent(words, hint=cap.hint)
