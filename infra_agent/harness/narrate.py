"""What the harness tells a person while it works. The command line decides how it looks."""

from __future__ import annotations

from typing import Protocol


class Narrator(Protocol):
    """Receives state changes; knows nothing of what they mean."""

    def line(self, label: str, text: str, seconds: float | None = None) -> None:
        """A state change worth keeping on the screen. `seconds`: what it cost."""
        ...

    def status(self, text: str) -> None:
        """What is going on now; shown on a terminal only, replaced by the next."""
        ...


class Silent:
    """Says nothing."""

    def line(self, label: str, text: str, seconds: float | None = None) -> None:
        """Nothing."""

    def status(self, text: str) -> None:
        """Nothing."""
