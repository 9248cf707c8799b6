"""What a run has spent and what it has set aside, as a fold of `budget_reserved` and `budget_settled`.

Pure: each step gives a new value. What is set aside counts as spent in full until it is settled, so a process that dies
between the two never hands anything back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """`settled`: sums of what was really used. `open`: reservations by id that have no settlement yet."""

    settled: Amounts = field(default_factory=dict)
    open: Mapping[str, Amounts] = field(default_factory=dict)
    reservations: int = 0

    def reserve(self, id: str, amounts: Amounts) -> Spending:
        """Set aside; ValueError when the id is taken."""
        if id in self.open:
            raise ValueError(f"reservation {id!r} is open already")
        return replace(self, open={**self.open, id: dict(amounts)}, reservations=self.reservations + 1)

    def settle(self, id: str, amounts: Amounts) -> Spending:
        """Replace what was set aside by what was used; ValueError when nothing was set aside under this id."""
        if id not in self.open:
            raise ValueError(f"reservation {id!r} is not open")
        kinds = self.settled.keys() | amounts.keys()
        settled = {kind: self.settled.get(kind, 0.0) + amounts.get(kind, 0.0) for kind in sorted(kinds)}
        return replace(self, settled=settled, open={key: held for key, held in self.open.items() if key != id})

    def total(self, *kinds: str) -> float:
        """Spent and set aside, summed over these kinds."""
        parts = (self.settled, *self.open.values())
        return sum(part.get(kind, 0.0) for part in parts for kind in kinds)

    def used(self) -> dict[str, float]:
        """Every kind with an amount above nothing."""
        kinds = sorted({kind for part in (self.settled, *self.open.values()) for kind in part})
        return {kind: total for kind in kinds if (total := self.total(kind)) > 0}
