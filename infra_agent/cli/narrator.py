"""Shows a run's progress: one live status line on a terminal, one plain line per state change elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from infra_agent.cli.streams import masker_of
from probes.clean import one_line

LABEL_WIDTH = 10


class TerminalNarrator:
    """Permanent lines above, one replaced status line below. On a pipe only the lines."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._status: Live | None = None
        self._started_s = time.monotonic()

    def line(self, label: str, text: str, seconds: float | None = None) -> None:
        """A state change worth keeping."""
        if self._quiet:
            return
        cost = f"   {seconds:.0f} s" if seconds is not None else ""
        elapsed = int(time.monotonic() - self._started_s)
        stamp = f"{elapsed // 60:>2}:{elapsed % 60:02d}"
        self._console.print(
            Text.assemble((stamp, "dim"), " ", (f"{label:<{LABEL_WIDTH}}", "bold"), " ", one_line(text), (cost, "dim"))
        )

    def status(self, text: str) -> None:
        """What is going on now."""
        if self._quiet or not self._console.is_terminal:
            return
        # A terminal that is too narrow gets the text in pieces, so it is masked before.
        shown = Text(one_line(masker_of(self._console.file).text(text)))
        if self._status is None:
            # Not redirected: what others write to standard output belongs there, not on this console.
            self._status = Live(
                Spinner("dots", shown), console=self._console, transient=True, redirect_stdout=False,
                redirect_stderr=False,
            )  # fmt: skip
            self._status.start()
        else:
            self._status.update(Spinner("dots", shown))

    def rest(self) -> None:
        """Take the status line away, until the next one: results are about to be printed."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __enter__(self) -> TerminalNarrator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()
