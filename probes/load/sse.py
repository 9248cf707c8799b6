"""An incremental parser for server-sent events.

Covered: reads that hold many events or half of one, UTF-8 split between reads, LF, CRLF and CR line ends, comments,
several data lines per event, a byte order mark, a last event without its blank line.
Not covered: `id` and `retry` fields, which mean nothing for one answer.
"""

from __future__ import annotations

from typing import NamedTuple


class Event(NamedTuple):
    """One dispatched event. (A tuple: one is made for every token.)"""

    name: str
    data: str


class SseParser:
    """Feed it bytes as they arrive; it returns the events completed by them."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[str] = []
        self._name = ""
        self._started = False
        self._skip_lf = False
        self._fresh = True
        """Nothing is left over from earlier reads."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Events completed by this read."""
        if self._fresh and self._started and _is_one_event(chunk):
            return [Event("", chunk[6:-2].decode("utf-8", "replace"))]
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        self._buffer += chunk
        events: list[Event] = []
        start = 0
        while (line_end := self._next_line_end(start)) is not None:
            end, after = line_end
            self._line(bytes(self._buffer[start:end]), events)
            start = after
        del self._buffer[:start]
        self._fresh = not (self._buffer or self._data or self._name or self._skip_lf)
        return events

    def close(self) -> list[Event]:
        """The event that the stream's end completes, if any."""
        events: list[Event] = []
        if self._buffer:
            self._line(bytes(self._buffer), events)
            self._buffer.clear()
        self._dispatch(events)
        return events

    def _next_line_end(self, start: int) -> tuple[int, int] | None:
        """Where the line ends and where the next begins. A CR ends a line at once; its LF may come a read later."""
        lf = self._buffer.find(b"\n", start)
        cr = self._buffer.find(b"\r", start, lf if lf >= 0 else len(self._buffer))
        if cr >= 0:
            self._skip_lf = cr + 1 == len(self._buffer)
            return cr, cr + 2 if self._buffer[cr + 1 : cr + 2] == b"\n" else cr + 1
        return (lf, lf + 1) if lf >= 0 else None

    def _line(self, raw: bytes, events: list[Event]) -> None:
        if not self._started:
            self._started = True
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if not raw:
            self._dispatch(events)
            return
        name, _, value = raw.decode("utf-8", errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(self._name, "\n".join(self._data)))
        self._data = []
        self._name = ""


def _is_one_event(chunk: bytes) -> bool:
    """The common case: one read that is one event of one data line."""
    return chunk[:6] == b"data: " and chunk[-2:] == b"\n\n" and chunk.count(b"\n") == 2 and b"\r" not in chunk
