"""Makes records of finished exchanges, a slice at a time, when nothing else is to be done.

Covered: streamed answers piece by piece, whole answers, HTTP errors with the beginning of their text, pages that are
no answer. Not covered: keeping raw bytes on disk; a long saturated window keeps them in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from http import HTTPStatus

from probes.load.answer import AnswerBuilder
from probes.load.exchange import Exchange
from probes.load.sse import SseParser
from probes.load.types import RequestRecord

SLICE = 32
"""Pieces parsed at once: about 0.2 ms of work."""
ERROR_TEXT = 200
OnRecord = Callable[[RequestRecord], None]


class Unfolding:
    """Reads one finished exchange, `SLICE` pieces at a time."""

    def __init__(self, exchange: Exchange, zero_s: float, streamed: bool) -> None:
        self._exchange, self._zero_s, self._streamed = exchange, zero_s, streamed
        self._next = 0
        self._sse = SseParser()
        self._answer = AnswerBuilder(
            exchange.number,
            exchange.scheduled_s - zero_s,
            exchange.sent_s - zero_s,
            connect_s=exchange.sent_s - exchange.asked_s,
        )

    def step(self) -> RequestRecord | None:
        """Read some more; the record when there is no more."""
        if self._is_stream() and self._next < len(self._exchange.bodies):
            self._read(self._next + SLICE)
            return None
        self._close()
        self._exchange.bodies, self._exchange.times_s = [], []
        return self._answer.record(self._exchange.end_s - self._zero_s, streamed=self._streamed)

    def done_seen(self) -> bool:
        """Whether the answer itself, not some text in it, said that it is done. Reads all that came so far."""
        if self._is_stream():
            self._read(len(self._exchange.bodies))
        return self._answer.done

    def _is_stream(self) -> bool:
        reader = self._exchange.reader
        return self._streamed and reader.status == HTTPStatus.OK and "event-stream" in _kind(self._exchange)

    def _read(self, stop: int) -> None:
        exchange, zero_s = self._exchange, self._zero_s
        stop = min(stop, len(exchange.bodies))
        for index in range(self._next, stop):
            for event in self._sse.feed(exchange.bodies[index]):
                self._answer.event(event, exchange.times_s[index] - zero_s)
        self._next = stop

    def _close(self) -> None:
        exchange, answer = self._exchange, self._answer
        status = exchange.reader.status
        if exchange.trouble is not None and not answer.done:
            what, why = exchange.trouble
            answer.fail(
                f"{what} after {answer.chunks} chunks: {why}" if why else f"{what} ({answer.chunks} chunks came)"
            )
        elif status != HTTPStatus.OK:
            text = b"".join(exchange.bodies).decode("utf-8", errors="replace")
            answer.fail(f"HTTP {status}: {' '.join(text.split())[:ERROR_TEXT]}")
        elif not self._streamed:
            answer.whole(b"".join(exchange.bodies).decode("utf-8", errors="replace"))
        elif not self._is_stream():
            answer.fail(f"asked for a stream, got {_kind(exchange)}")
        else:
            for event in self._sse.close():
                answer.event(event, exchange.end_s - self._zero_s)


class Digest:
    """Finished exchanges in, records out."""

    def __init__(self, zero_s: float, streamed: bool, on_record: OnRecord) -> None:
        self._zero_s, self._streamed, self._on_record = zero_s, streamed, on_record
        self._todo: deque[Exchange] = deque()
        self._open: Unfolding | None = None

    def add(self, exchange: Exchange) -> None:
        """Take a finished exchange."""
        self._todo.append(exchange)

    def step(self) -> bool:
        """One slice of work; whether there is more."""
        if self._open is None:
            if not self._todo:
                return False
            self._open = Unfolding(self._todo.popleft(), self._zero_s, self._streamed)
        record = self._open.step()
        if record is not None:
            self._open = None
            self._on_record(record)
        return self._open is not None or bool(self._todo)

    def drain(self) -> None:
        """Read everything that is left."""
        while self.step():
            pass


def _kind(exchange: Exchange) -> str:
    return exchange.reader.headers.get("content-type", "no content type")
