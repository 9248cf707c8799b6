"""One request in flight: the bytes of its answer with the moment of each read, kept for later.

Nothing is parsed here beyond the framing: an answer is read in idle moments or after the window (`digest`), so that
reading one answer never delays the stamp of another.
Covered: complete responses, HTTP errors, lost connections, time-outs, servers that say [DONE] and leave the response
open. Not covered: retries (a retried request hides a failure).
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from probes.load.wire.connection import Connection
from probes.load.wire.http1 import ProtocolError, ResponseReader

DONE = b"[DONE]"
SMALL = 8


class Exchange:
    """Times are the loop's clock. `trouble`: what went wrong with the connection and why, None while nothing did."""

    __slots__ = (
        "_on_done", "_on_end", "asked_s", "bodies", "connection", "end_s", "ended", "number", "reader", "reusable",
        "said_done", "scheduled_s", "sent_s", "times_s", "trouble",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        scheduled_s: float,
        asked_s: float,
        on_end: Callable[[Exchange], None],
        on_done: Callable[[Exchange], None],
    ) -> None:
        self.number, self.scheduled_s, self.asked_s = number, scheduled_s, asked_s
        self.sent_s = asked_s
        self.end_s = asked_s
        self.times_s: list[float] = []
        self.bodies: list[bytes] = []
        self.reader = ResponseReader()
        self.connection: Connection | None = None
        self.trouble: tuple[str, str] | None = None
        self.ended = False
        self.reusable = False
        self.said_done = False
        self._on_end, self._on_done = on_end, on_done

    @property
    def answered(self) -> bool:
        """The whole response came, and it is not an HTTP error."""
        return self.trouble is None and self.reader.status == HTTPStatus.OK

    def take(self, now_s: float, data: bytes) -> None:
        """Keep what a read returned."""
        reader = self.reader
        try:
            body = reader.feed(data)
        except ProtocolError as error:
            self.finish(now_s, ("not a readable response", str(error)))
            return
        if body:
            self.times_s.append(now_s)
            self.bodies.append(body)
        if reader.complete:
            self.reusable = reader.reusable
            self.finish(now_s, None)
        elif not self.said_done and self._says_done(body):
            self.said_done = True
            self._on_done(self)

    def lost(self, now_s: float, reason: str) -> None:
        """The connection is gone, which may be how the response ends."""
        self.connection = None
        try:
            self.reader.end()
        except ProtocolError:
            self.finish(now_s, ("connection failed", reason))
        else:
            self.finish(now_s, None)

    def finish(self, now_s: float, trouble: tuple[str, str] | None) -> None:
        """The end, told once."""
        if not self.ended:
            self.ended = True
            self.end_s, self.trouble = now_s, trouble
            self._on_end(self)

    def _says_done(self, body: bytes) -> bool:
        """[DONE] may be text of the answer too: whoever is told looks closer when it matters."""
        if len(body) > SMALL:
            return DONE in body
        return DONE in b"".join(self.bodies[-SMALL:])
