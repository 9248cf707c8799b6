"""Reads Perfetto traces: slices of track events, with the names of processes, threads and tracks.

The messages come from the `perfetto` package (extra `trace`); no trace processor is downloaded or started.
Covered: slices that begin and end, interned names and categories, complete and truncated files, several writers.
Not covered: scheduler and ftrace events, counters, async slices that share a track and overlap (they are nested).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probes.trace.profile.columns import NO_STREAM, Builder, Trace
from probes.trace.profile.source import Source, UnreadableTrace

PACKET_TAG = 0x0A
LARGEST_PACKET = 256 * 2**20
BEGIN, END, INSTANT = 1, 2, 3
CLEARED = 1
"""`SEQ_INCREMENTAL_STATE_CLEARED`: interned names before it mean nothing after it."""
NS_PER_US = 1e3


@dataclass(slots=True)
class _Writer:
    """What one writer of packets has named so far, and its defaults."""

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    track: int = 0


class _Slices:
    """Slices as they close. A track may carry the events of several writers."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, str, str, int]] = []
        self.tracks: dict[int, tuple[int, int]] = {}
        self.parents: dict[int, int] = {}
        self.process_names: dict[int, str] = {}
        self.thread_names: dict[int, str] = {}
        self._writers: dict[int, _Writer] = {}
        self._open: dict[int, list[tuple[float, str, str]]] = {}

    @property
    def unclosed(self) -> int:
        return sum(len(stack) for stack in self._open.values())

    def take(self, packet: Any) -> None:
        """One packet."""
        writer = self._writers.setdefault(packet.trusted_packet_sequence_id, _Writer())
        if packet.sequence_flags & CLEARED:
            writer.names.clear()
            writer.categories.clear()
        if packet.HasField("trace_packet_defaults"):
            writer.track = packet.trace_packet_defaults.track_event_defaults.track_uuid or writer.track
        if packet.HasField("interned_data"):
            writer.names.update((each.iid, each.name) for each in packet.interned_data.event_names)
            writer.categories.update((each.iid, each.name) for each in packet.interned_data.event_categories)
        if packet.HasField("track_descriptor"):
            self._track(packet.track_descriptor)
        if packet.HasField("track_event"):
            self._event(packet.track_event, packet.timestamp / NS_PER_US, writer)

    def place(self, track: int) -> tuple[int, int]:
        """Process and thread of a track, its parents' if it has none of its own."""
        seen: set[int] = set()
        while track and track not in seen:
            if track in self.tracks:
                return self.tracks[track]
            seen.add(track)
            track = self.parents.get(track, 0)
        return 0, 0

    def _track(self, said: Any) -> None:
        self.parents[said.uuid] = said.parent_uuid
        if said.HasField("thread"):
            self.tracks[said.uuid] = (said.thread.pid, said.thread.tid)
        elif said.HasField("process"):
            self.tracks[said.uuid] = (said.process.pid, 0)
            self.process_names[said.process.pid] = said.process.process_name or said.name
        elif not said.parent_uuid:
            self.tracks[said.uuid] = (said.uuid, 0)
            self.process_names[said.uuid] = said.name

    def _event(self, event: Any, at_us: float, writer: _Writer) -> None:
        track = event.track_uuid or writer.track
        stack = self._open.setdefault(track, [])
        if event.type == BEGIN:
            name = event.name or writer.names.get(event.name_iid, "(no name)")
            categories = list(event.categories) or [writer.categories.get(iid, "") for iid in event.category_iids]
            stack.append((at_us, name, categories[0] if categories else ""))
        elif event.type == END and stack:
            began_us, name, category = stack.pop()
            self.rows.append((began_us, at_us - began_us, name, category, track))


def read_perfetto(source: Source) -> Trace:
    """The trace. UnreadableTrace without the `trace` extra, or when it holds no slices."""
    messages = _messages()
    slices = _Slices()
    notes: list[str] = []
    for raw in _packets(source, notes):
        packet = messages.TracePacket()
        try:
            packet.ParseFromString(raw)
        except Exception as error:  # protobuf's DecodeError has no stable home
            notes.append(f"a packet cannot be read ({error}); what came before is used")
            break
        slices.take(packet)
    if not slices.rows:
        why = "; ".join(notes) or "it may hold scheduler events or counters only"
        raise UnreadableTrace(f"{source.path} holds no slices of track events ({why})")
    if slices.unclosed:
        notes.append(f"{slices.unclosed} slices never end; they are left out")
    return _trace(slices, source.read_bytes, notes)


def _trace(slices: _Slices, read_bytes: int, notes: list[str]) -> Trace:
    builder, rows, count = Builder(), slices.rows, len(slices.rows)
    builder.process_names.update((str(pid), name) for pid, name in slices.process_names.items())
    builder.add(
        np.fromiter((row[0] for row in rows), np.float64, count),
        np.fromiter((row[1] for row in rows), np.float64, count),
        builder.names.numbers((row[2] for row in rows), count),
        builder.categories.numbers((row[3] for row in rows), count),
        builder.lanes.numbers((slices.place(row[4]) for row in rows), count),
        np.zeros(count, np.int64),
        np.full(count, NO_STREAM, np.int64),
    )
    return builder.finish(read_bytes, notes)


def _packets(source: Source, notes: list[str]) -> Iterator[bytes]:
    """Each packet's bytes. A file that breaks off gives all whole packets before that."""
    held = b""
    for piece in source.pieces():
        held += piece
        at = 0
        while (found := _packet(held, at)) is not None:
            raw, at = found
            yield raw
        held = held[at:]
        if len(held) > LARGEST_PACKET:
            break
    if held or source.trouble:
        notes.append(source.trouble or f"the file breaks off, or is damaged: {len(held)} bytes are left out")


def _packet(held: bytes, at: int) -> tuple[bytes, int] | None:
    """The packet that begins here and where the next one does; None when it is not whole, or is no packet."""
    if at >= len(held) or held[at] != PACKET_TAG:
        return None
    size, shift = 0, 0
    for here in range(at + 1, min(at + 11, len(held))):
        size |= (held[here] & 0x7F) << shift
        shift += 7
        if held[here] < 0x80:
            end = here + 1 + size
            return (held[here + 1 : end], end) if end <= len(held) else None
    return None


def _messages() -> Any:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError as error:
        raise UnreadableTrace("this is a Perfetto trace: pip install 'infra-agent[trace]' to read it") from error
    return perfetto_trace_pb2
