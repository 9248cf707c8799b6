"""The caps: which kinds of spending each sums up, how it is shown, and what raises it."""

from __future__ import annotations

from dataclasses import dataclass

from infra_agent.goal.model import SpendingCaps
from infra_agent.goal.say import amount
from infra_agent.ledger.kinds import SpendKind


@dataclass(frozen=True, slots=True)
class Cap:
    """One ceiling, named as in `goal.budget`."""

    name: str
    kinds: tuple[SpendKind, ...]
    hint: str

    def limit(self, caps: SpendingCaps) -> float | None:
        """The ceiling; None when there is none."""
        found: float | None = getattr(caps, self.name)
        return found

    def show(self, value: float) -> str:
        """An amount with its unit."""
        return amount(self.name, value)

    def bare(self, value: float) -> str:
        """The amount where it was just said of what: `0 of 4`, `10 MB of 20 MB`."""
        words = amount(self.name, value).removesuffix(" of disk")
        return words.split(" ")[0] if self.name in ("tokens", "launches") else words


CAPS = {
    cap.name: cap
    for cap in (
        Cap("usd", ("usd",), "raise it with --max-usd"),
        Cap("tokens", ("tokens_in", "tokens_out"), "raise it with --max-tokens"),
        Cap("launches", ("launches",), "raise it with --max-launches"),
        Cap("disk_bytes", ("disk_bytes",), "raise it with --max-disk"),
        Cap("gpu_s", ("gpu_s",), "raise budget.gpu_s in the goal file"),
    )
}
