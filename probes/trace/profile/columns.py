"""A trace as columns: one row per finished event, texts kept once. A million events take about 50 MB.

Times are microseconds after the first event, as float64; `base_us` is that event's own time stamp.
Covered: complete events, begin/end pairs, names of processes and threads. Not covered: flows, counters, samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
NO_STREAM = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All events of a trace, ordered by start. `names[name_ids[i]]` is the i-th event's name."""

    start_us: Floats
    length_us: Floats
    name_ids: Ints
    category_ids: Ints
    lane_ids: Ints
    correlations: Ints
    streams: Ints
    names: tuple[str, ...]
    categories: tuple[str, ...]
    lanes: tuple[tuple[str, str], ...]
    process_names: Mapping[str, str] = field(default_factory=dict)
    base_us: float = 0.0
    read_bytes: int = 0
    notes: tuple[str, ...] = ()
    """What was wrong with the file, when something was: the events that could be read are here."""

    def __len__(self) -> int:
        return len(self.start_us)

    @property
    def end_us(self) -> Floats:
        """When each event ended."""
        return self.start_us + self.length_us

    @property
    def span_us(self) -> float:
        """From the first start to the last end."""
        return float(self.end_us.max() - self.start_us.min()) if len(self) else 0.0

    def lane_name(self, lane: int) -> str:
        """A lane in words: process and thread, or stream."""
        process, thread = self.lanes[lane]
        known = self.process_names.get(process, "")
        return f"{known} {process}/{thread}".strip()


class Texts:
    """Texts kept once, numbered in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def number(self, text: Any) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def numbers(self, texts: Iterable[Any], count: int) -> Ints:
        """The numbers of many texts."""
        known = self._numbers
        return np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, count)

    def all(self) -> tuple[Any, ...]:
        """The texts by number."""
        return tuple(self._numbers)


class Builder:
    """Collects events in pieces; `finish` joins and orders them."""

    def __init__(self) -> None:
        self.names, self.categories, self.lanes = Texts(), Texts(), Texts()
        self.process_names: dict[str, str] = {}
        self._pieces: list[tuple[Floats, Floats, Ints, Ints, Ints, Ints, Ints]] = []

    def add(
        self, starts: Floats, lengths: Floats, names: Ints, categories: Ints, lanes: Ints, correlations: Ints,
        streams: Ints,
    ) -> None:  # fmt: skip
        """One piece; all columns are equally long."""
        self._pieces.append((starts, lengths, names, categories, lanes, correlations, streams))

    def finish(self, read_bytes: int, notes: Iterable[str]) -> Trace:
        """The whole trace. Events whose time is no number are left out and counted."""
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float64)
        pieces = self._pieces or [(nothing, nothing, none, none, none, none, none)]
        columns = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        self._pieces = []
        starts, lengths = columns[0], columns[1]
        good = np.isfinite(starts) & np.isfinite(lengths) & (lengths >= 0)
        said = list(notes)
        if not good.all():
            said.append(f"{int((~good).sum())} events have no possible time and are left out")
        order = np.flatnonzero(good)[np.argsort(starts[good], kind="stable")]
        starts, lengths, names, categories, lanes, correlations, streams = (column[order] for column in columns)
        base_us = float(starts[0]) if len(starts) else 0.0
        return Trace(
            start_us=starts - base_us,
            length_us=lengths,
            name_ids=names,
            category_ids=categories,
            lane_ids=lanes,
            correlations=correlations,
            streams=streams,
            names=tuple(str(name) for name in self.names.all()),
            categories=tuple(str(category) for category in self.categories.all()),
            lanes=tuple((str(process), str(thread)) for process, thread in self.lanes.all()),
            process_names=dict(self.process_names),
            base_us=base_us,
            read_bytes=read_bytes,
            notes=tuple(said),
        )
