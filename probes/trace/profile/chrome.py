"""Reads Chrome trace JSON, the form that the PyTorch profiler writes, in one pass and in pieces of a few megabytes.

A piece is cut where one event ends and the next begins, and decoded on its own; a cut inside a text or a nested list
can never decode, so a wrong cut is noticed and another one is taken. What cannot be decoded is searched event by
event, so that one bad event costs one event.
Covered: objects with `traceEvents` and bare lists, unfinished files, bad events, begin/end pairs, numbers as texts.
Not covered: events as texts inside `systemTraceEvents`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from probes.trace.profile.columns import NO_STREAM, Builder, Trace
from probes.trace.profile.source import Source, UnreadableTrace

LONGEST_HEADER = 64 * 2**20
LONGEST_EVENT = 64 * 2**20
MOST_CUTS = 12
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{\s*\"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s|tts)\")")
_LIST = re.compile(rb"\"traceEvents\"\s*:\s*\[")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_SPACE = b" \t\r\n"


class Args(msgspec.Struct, gc=False):
    """What of an event's arguments is used."""

    correlation: int | float | str | None = None
    stream: int | float | str | None = None
    name: Any = None
    labels: Any = None


class Event(msgspec.Struct, gc=False):
    """One event; everything else in it is skipped while decoding."""

    ph: str = "X"
    cat: str | None = ""
    name: str | int | float | None = ""
    pid: int | float | str | None = 0
    tid: int | float | str | None = 0
    ts: float = 0.0
    dur: float = 0.0
    args: Args | None = None


_EVENTS = msgspec.json.Decoder(list[Event], strict=False)


def read_chrome(source: Source) -> Trace:
    """The trace. UnreadableTrace when the file holds no list of events, or not one event that can be read."""
    reader = _Reader(source)
    for events in reader.batches():
        reader.take(events)
    return reader.finish()


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._builder = Builder()
        self._open: dict[tuple[Any, Any], list[Event]] = {}
        self._bad = self._seen = 0
        self._notes: list[str] = []

    def batches(self) -> Iterator[list[Event]]:
        """Events as the pieces of the file come."""
        pieces = self._source.pieces()
        held = _after_header(pieces, self._source)
        for piece in pieces:
            held += piece
            events, held, ended = self._decoded(held)
            yield events
            if ended:
                return
            if len(held) > LONGEST_EVENT:
                self._notes.append(f"no event ends within {len(held) >> 20} MiB: the rest of the file is left out")
                return
        yield self._last(held)

    def take(self, events: Sequence[Event]) -> None:
        """Keep the complete ones as columns, and the few others for what they tell."""
        self._seen += len(events)
        whole = [event for event in events if event.ph == "X"]
        whole += [made for event in events if event.ph != "X" and (made := self._other(event)) is not None]
        count, builder = len(whole), self._builder
        lanes = builder.lanes.numbers(((event.pid, event.tid) for event in whole), count)
        arguments = [event.args for event in whole]
        builder.add(
            np.fromiter((event.ts for event in whole), np.float64, count),
            np.fromiter((event.dur for event in whole), np.float64, count),
            builder.names.numbers((event.name for event in whole), count),
            builder.categories.numbers((event.cat or "" for event in whole), count),
            lanes,
            np.fromiter((_whole(a.correlation, 0) if a is not None else 0 for a in arguments), np.int64, count),
            np.fromiter(
                (_whole(a.stream, NO_STREAM) if a is not None else NO_STREAM for a in arguments), np.int64, count
            ),
        )

    def finish(self) -> Trace:
        """The whole trace, with what was wrong."""
        if self._source.trouble:
            self._notes.append(self._source.trouble)
        if self._bad:
            self._notes.append(f"{self._bad} events cannot be read and are left out")
        unclosed = sum(len(events) for events in self._open.values())
        if unclosed:
            self._notes.append(f"{unclosed} events begin and never end; they are left out")
        if not self._seen:
            why = "; ".join(self._notes) or "its list of events is empty"
            raise UnreadableTrace(f"{self._source.path}: no event can be read ({why})")
        return self._builder.finish(self._source.read_bytes, self._notes)

    def _other(self, event: Event) -> Event | None:
        """Begin/end pairs become complete events; metadata names processes."""
        key = (event.pid, event.tid)
        if event.ph == "B":
            self._open.setdefault(key, []).append(event)
        elif event.ph == "E" and self._open.get(key):
            begun = self._open[key].pop()
            begun.dur = event.ts - begun.ts
            return begun
        elif event.ph == "M" and event.args is not None:
            self._name_process(event)
        return None

    def _name_process(self, event: Event) -> None:
        said = event.args.labels if event.name == "process_labels" and event.args is not None else None
        said = event.args.name if event.name == "process_name" and event.args is not None else said
        if said:
            known = self._builder.process_names
            known[str(event.pid)] = f"{known.get(str(event.pid), '')} {said}".strip()

    def _decoded(self, held: bytes) -> tuple[list[Event], bytes, bool]:
        """Events of all but the unfinished end of what is held, that end, and whether the list is over."""
        for cut in _cuts(held, MOST_CUTS):
            try:
                return _EVENTS.decode(b"[" + held[:cut] + b"]"), _from_next(held, cut), False
            except msgspec.ValidationError:
                break
            except msgspec.DecodeError as error:
                over = _TRAILING.search(str(error))
                if over is not None:
                    return self._until(held, int(over[1]) - 2), b"", True
        last = _last_boundary(held)
        if last is None:
            return [], held, False
        return self._one_by_one(held[:last]), _from_next(held, last), False

    def _last(self, held: bytes) -> list[Event]:
        """The end of the file: the list's end and what follows it, or an end in the middle."""
        events = self._whole_end(held)
        if events is not None:
            return events
        cut = _last_boundary(held)
        if cut is None:
            return self._remains(held)
        try:
            events = _EVENTS.decode(b"[" + held[:cut] + b"]")
        except msgspec.DecodeError:
            events = self._one_by_one(held[:cut])
        return events + self._remains(_from_next(held, cut))

    def _whole_end(self, held: bytes) -> list[Event] | None:
        """The events, if all that is held can be decoded as the end of a list."""
        try:
            return _EVENTS.decode(b"[" + held)
        except msgspec.DecodeError as error:
            over = _TRAILING.search(str(error))
        return self._until(held, int(over[1]) - 2) if over is not None else None

    def _remains(self, rest: bytes) -> list[Event]:
        """The last event, if it is whole, or a note that the file ends in the middle of one."""
        bare = rest.decode("utf-8", "replace").strip(" \t\r\n,").encode()
        if not bare:
            return []
        events = self._whole_end(bare) or self._whole_end(bare + b"]")
        if events is None:
            self._notes.append(f"the file breaks off in the middle of an event ({len(bare)} bytes are left out)")
        return events or []

    def _until(self, held: bytes, end: int) -> list[Event]:
        try:
            return _EVENTS.decode(b"[" + held[:end])
        except msgspec.DecodeError:
            return self._one_by_one(held[:end].rstrip(_SPACE + b"]"))

    def _one_by_one(self, text: bytes) -> list[Event]:
        """Every event that can be decoded, after all of them together could not."""
        bounds = [0, *(match.start() + 1 for match in _BOUNDARY.finditer(text)), len(text)]
        parts = [text[a:b].strip(_SPACE + b",") for a, b in zip(bounds, bounds[1:], strict=False)]
        found: list[Event] = []
        pending = [parts]
        while pending:
            some = pending.pop()
            try:
                found += _EVENTS.decode(b"[" + b",".join(some) + b"]")
            except msgspec.DecodeError:
                if len(some) > 1:
                    middle = len(some) // 2
                    pending += [some[middle:], some[:middle]]
                else:
                    found += self._salvaged(some[0])
        return found

    def _salvaged(self, text: bytes) -> list[Event]:
        """An event of odd types or bytes that are no text; counted as bad when nothing helps."""
        try:
            row = msgspec.json.decode(text.decode("utf-8", "replace"))
            times = [0.0 if row.get(name) is None else float(row[name]) for name in ("ts", "dur")]
            arguments = row.get("args")
            args = msgspec.convert(arguments, Args, strict=False) if isinstance(arguments, dict) else None
            texts = {name: str(row.get(name) or "") for name in ("cat", "name", "pid", "tid")}
            return [Event(ph=str(row.get("ph") or "X"), ts=times[0], dur=times[1], args=args, **texts)]
        except (msgspec.DecodeError, ValueError, TypeError, AttributeError):
            self._bad += 1
            return []


def _after_header(pieces: Iterator[bytes], source: Source) -> bytes:
    """What follows the opening bracket of the list of events."""
    held = b""
    for piece in pieces:
        held += piece
        bare = held.lstrip(b"\xef\xbb\xbf" + _SPACE)
        if bare[:1] == b"[":
            return bare[1:]
        match = _LIST.search(held)
        if match is not None:
            return held[match.end() :]
        if bare[:1] != b"{" or len(held) > LONGEST_HEADER:
            break
    why = source.trouble or f"it begins with {held[:40]!r}"
    raise UnreadableTrace(
        f"{source.path} is no Chrome trace: no list named traceEvents ({why}); "
        "write one with torch.profiler's export_chrome_trace"
    )


def _cuts(held: bytes, most: int) -> Iterator[int]:
    """Ends of events from the back, where another event follows."""
    at, count = len(held), 0
    while count < most and (at := held.rfind(b"{", 0, at)) > 0:
        before = held[max(0, at - 64) : at].rstrip(_SPACE)
        if before[-1:] != b",":
            continue
        inner = before[:-1].rstrip(_SPACE)
        if inner[-1:] == b"}":
            count += 1
            yield at - (min(64, at) - len(inner))


def _last_boundary(held: bytes) -> int | None:
    """The end of the last event that another one follows, told by a key that events have."""
    last = deque(_BOUNDARY.finditer(held), maxlen=1)
    return last[0].start() + 1 if last else None


def _from_next(held: bytes, cut: int) -> bytes:
    return held[cut:].lstrip(_SPACE + b",")


def _whole(value: int | float | str | None, other: int) -> int:
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else other
    try:
        return int(value) if value is not None else other
    except (ValueError, OverflowError):
        return other
