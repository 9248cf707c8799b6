"""Wall-clock budget of a run: a hard ceiling, checked before each spend."""

from __future__ import annotations

from collections.abc import Callable

from infra_agent.errors import BudgetSpent


class Budget:
    """Counts seconds from its creation, plus what earlier sessions of the run have spent."""

    def __init__(self, limit_s: float, clock: Callable[[], float], spent_s: float = 0.0) -> None:
        self.limit_s = limit_s
        self._clock = clock
        self._start = clock() - spent_s

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
