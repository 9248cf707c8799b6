"""Tells how a window goes while it runs: one live line on a terminal, plain lines elsewhere.

It is called between reads, in the client's own thread: a thread that draws would delay the stamps. Unchecked figures
are said to be unchecked. Covered: single windows and sweeps. Not covered: colours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from probes.clean import one_line
from probes.load.arrivals import describe
from probes.load.digest import OnRecord
from probes.load.types import LoadRequest, RequestRecord

EVERY_S = 0.25


class Progress:
    """`begin` announces a window and returns what is to hear of its records."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._live = stream.isatty()
        self._drawn = False

    def begin(self, request: LoadRequest) -> OnRecord:
        """Announce a window."""
        self.end()
        bound = f" or {request.duration_s:g} s" if request.duration_s else ""
        planned = f"{request.base_url} · {describe(request.arrivals)} · {request.requests} requests{bound}, "
        planned += f"{request.warmup_requests} for warm-up · seed {request.seed}"
        self._stream.write(one_line(planned) + "\n")
        self._stream.flush()
        return _Line(self, request).hear if self._live else _ignore

    def draw(self, text: str) -> None:
        """Replace the live line."""
        self._stream.write(f"\r\x1b[2K{text}")
        self._stream.flush()
        self._drawn = True

    def end(self) -> None:
        """Take the live line away."""
        if self._drawn:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._drawn = False

    def now_s(self) -> float:
        """The moment by the progress's own clock."""
        return self._clock()


class _Line:
    def __init__(self, progress: Progress, request: LoadRequest) -> None:
        self._progress, self._request = progress, request
        self._done = self._failed = self._tokens = 0
        self._ttft_s = 0.0
        self._end_s = 0.0
        self._due_s = 0.0

    def hear(self, record: RequestRecord) -> None:
        self._done += 1
        self._failed += not record.ok
        self._tokens += record.output_tokens or 0
        self._end_s = max(self._end_s, record.end_s)
        if record.first_token_s is not None:
            self._ttft_s += record.first_token_s - record.sent_s
        if self._progress.now_s() >= self._due_s:
            self._due_s = self._progress.now_s() + EVERY_S
            self._progress.draw(self._text())

    def _text(self) -> str:
        rate = self._tokens / self._end_s if self._end_s > 0 else 0.0
        good = self._done - self._failed
        ttft = f" · TTFT mean {1e3 * self._ttft_s / good:.0f} ms" if good and self._ttft_s else ""
        failed = f" · {self._failed} failed" if self._failed else ""
        return f"  {self._done} of {self._request.requests} · {rate:.1f} tok/s{ttft}{failed} (not checked yet)"


def _ignore(_: RequestRecord) -> None:
    """Nobody looks."""
