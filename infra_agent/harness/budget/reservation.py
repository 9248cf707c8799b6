"""One reservation: settled once, with what was really used, or in full when nobody says what that was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

from infra_agent.ledger.kinds import SpendKind

Settle = Callable[[str, Mapping[SpendKind, float], str], None]
NOT_SETTLED = "not settled: charged in full"


class Reservation:
    """Use it as a context manager: what leaves the block without `settle` is charged in full, whatever happened."""

    def __init__(self, id: str, amounts: Mapping[SpendKind, float], settle: Settle) -> None:
        self.id = id
        self.amounts = dict(amounts)
        self._settle = settle
        self._settled = False

    def settle(self, used: Mapping[SpendKind, float] | None = None, outcome: str = "") -> None:
        """Charge what was used; a kind that is not named is charged as reserved. Only the first call counts."""
        if self._settled:
            return
        self._settled = True
        self._settle(self.id, {**self.amounts, **(used or {})}, outcome)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.settle(outcome=NOT_SETTLED if kind is None else f"{kind.__name__}: charged in full")
