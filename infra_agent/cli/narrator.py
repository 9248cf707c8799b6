"""Shows a run's progress: one live status line on a terminal, one plain line per state change elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.text import Text

from infra_agent.cli.output import clean

LABEL_WIDTH = 10


class TerminalNarrator:
    """Permanent lines above, one replaced status line below. On a pipe only the lines."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._status: Status | None = None
        self._started_s = time.monotonic()

    def line(self, label: str, text: str, seconds: float | None = None) -> None:
        """A state change worth keeping."""
        if self._quiet:
            return
        cost = f"   {seconds:.0f} s" if seconds is not None else ""
        elapsed = int(time.monotonic() - self._started_s)
        stamp = f"{elapsed // 60:>2}:{elapsed % 60:02d}"
        self._console.print(
            Text.assemble((stamp, "dim"), " ", (f"{label:<{LABEL_WIDTH}}", "bold"), " ", clean(text), (cost, "dim"))
        )

    def status(self, text: str) -> None:
        """What is going on now."""
        if self._quiet or not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._console.status(Text(clean(text)))
            self._status.start()
        else:
            self._status.update(Text(clean(text)))

    def __enter__(self) -> TerminalNarrator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
