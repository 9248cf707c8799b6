"""Where the time of one trace went: by kernel, by kind of work, and for every idle moment of the device why.

A gap between two kernels is put down to what its second kernel's launch says: launched only after the gap began, the
host was late (busy, or itself waiting in a synchronising call); launched before it, the device waited for other work.
Covered: traces with a device, and traces of the CPU alone (gaps of the busiest thread). Not covered: time inside a
kernel; several devices are joined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probes.trace.profile.columns import Flags, Floats, Ints, Trace
from probes.trace.profile.intervals import Spans, covered, gaps, overlap, union
from probes.trace.profile.kinds import Kinds, kinds_of
from probes.trace.profile.nesting import innermost, self_times

MOST_ROWS, MOST_GAPS = 30, 12
SYNCHRONISED = 0.5
"""Share of the host's delay spent in synchronising calls from which on the wait explains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All events of one name. On the host, time without what an event called."""

    name: str
    count: int
    total_us: float
    share: float
    mean_us: float
    longest_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One pause: `cause` of idle, what came before and after, what the host was doing."""

    start_us: float
    length_us: float
    cause: str
    before: str
    after: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """One trace. With no device, `device_rows` is empty and idle time is that of the busiest thread."""

    span_us: float
    events: int
    has_device: bool
    device_rows: tuple[Row, ...]
    host_rows: tuple[Row, ...]
    busy_us: dict[str, float]
    """Union of each kind: compute, communication, copy."""
    exposed_us: dict[str, float]
    """Communication and copies while no compute runs."""
    idle_us: float
    idle_causes_us: dict[str, float]
    cpu_bound_us: float
    """The device idles while the host works."""
    gaps: tuple[Gap, ...]
    gap_count: int
    lane: str
    """The thread that idle time speaks of, when there is no device."""
    notes: tuple[str, ...] = ()


def break_down(trace: Trace) -> Breakdown:
    """The breakdown of a trace."""
    kinds = kinds_of(trace)
    index, own_us, _ = self_times(trace, kinds.host)
    host_rows = rows(trace, index, own_us, trace.span_us)
    if kinds.device.any():
        return _with_device(trace, kinds, host_rows)
    return _host_only(trace, kinds, host_rows, index, own_us)


def rows(trace: Trace, index: Ints, times_us: Floats, span_us: float) -> tuple[Row, ...]:
    """Totals by name, largest first."""
    names = trace.name_ids[index]
    total = np.bincount(names, weights=times_us, minlength=len(trace.names))
    count = np.bincount(names, minlength=len(trace.names))
    longest = np.zeros(len(trace.names))
    np.maximum.at(longest, names, times_us)
    order = [int(name) for name in np.argsort(-total)[:MOST_ROWS] if count[name]]
    return tuple(
        Row(
            name=trace.names[name],
            count=int(count[name]),
            total_us=float(total[name]),
            share=float(total[name] / span_us) if span_us else 0.0,
            mean_us=float(total[name] / count[name]),
            longest_us=float(longest[name]),
        )
        for name in order
    )


def _spans(trace: Trace, chosen: Flags) -> Spans:
    return union(trace.start_us[chosen], trace.end_us[chosen])


def _with_device(trace: Trace, kinds: Kinds, host_rows: tuple[Row, ...]) -> Breakdown:
    index = np.flatnonzero(kinds.device)
    busy = _spans(trace, kinds.device)
    span_us = float(busy.ends[-1] - busy.starts[0]) if len(busy.starts) else 0.0
    parts = {name: _spans(trace, getattr(kinds, name)) for name in ("compute", "communication", "copy")}
    compute = parts["compute"]
    exposed = {name: parts[name].length - overlap(compute, parts[name]) for name in ("communication", "copy")}
    idle = gaps(busy)
    late, waits, causes = _causes(trace, kinds, idle)
    host = _spans(trace, (kinds.host | kinds.launch) & ~kinds.wait)
    return Breakdown(
        span_us=span_us,
        events=len(trace),
        has_device=True,
        device_rows=rows(trace, index, trace.length_us[index], span_us),
        host_rows=host_rows,
        busy_us={name: spans.length for name, spans in parts.items()},
        exposed_us=exposed,
        idle_us=idle.length,
        idle_causes_us=causes,
        cpu_bound_us=overlap(host, idle),
        gaps=_longest(trace, kinds, idle, _labels(late, waits)),
        gap_count=len(idle.starts),
        lane="",
        notes=trace.notes,
    )


def _causes(trace: Trace, kinds: Kinds, idle: Spans) -> tuple[Floats, Floats, dict[str, float]]:
    """For each gap the host's delay and its waiting (NaN: not known), and the totals by cause."""
    late = _host_delay(trace, kinds, idle)
    length = idle.ends - idle.starts
    waits = covered(_spans(trace, kinds.wait), idle.starts, idle.starts + np.nan_to_num(late))
    known = ~np.isnan(late)
    synchronised = known & (waits >= SYNCHRONISED * np.maximum(late, 1e-9)) & (late > 0)
    busy = known & ~synchronised
    causes = {
        "the host was late": float(late[busy].sum()),
        "the host waited in a synchronising call": float(late[synchronised].sum()),
        "launched, not started": float((length - late)[known].sum()),
        "not known (no launch found)": float(length[~known].sum()),
    }
    return late, np.where(synchronised, 1.0, 0.0), causes


def _host_delay(trace: Trace, kinds: Kinds, idle: Spans) -> Floats:
    """How far into each gap its next kernel was launched; NaN without a launch of the same correlation."""
    length = idle.ends - idle.starts
    device = np.flatnonzero(kinds.device)
    following = device[np.minimum(np.searchsorted(trace.start_us[device], idle.ends - 1e-6), len(device) - 1)]
    calls = np.flatnonzero(~kinds.device & (trace.correlations > 0) & (kinds.launch | ~kinds.host))
    if not len(calls) or not len(following):
        return np.full(len(length), np.nan)
    order = calls[np.argsort(trace.correlations[calls], kind="stable")]
    sought = trace.correlations[following]
    at = np.minimum(np.searchsorted(trace.correlations[order], sought), len(order) - 1)
    launched = trace.start_us[order[at]]
    found = (trace.correlations[order[at]] == sought) & (sought > 0)
    return np.where(found, np.clip(launched - idle.starts, 0.0, length), np.nan)


def _labels(late: Floats, waits: Floats) -> list[str]:
    return [_label(delay, bool(wait)) for delay, wait in zip(late.tolist(), waits.tolist(), strict=True)]


def _label(delay: float, wait: bool) -> str:
    if math.isnan(delay):
        return "not known"
    if delay <= 0:
        return "launched, not started"
    return "host waits" if wait else "host late"


def _host_only(trace: Trace, kinds: Kinds, host_rows: tuple[Row, ...], index: Ints, own_us: Floats) -> Breakdown:
    """The busiest thread's pauses, as far as no operator fills them."""
    notes = (*trace.notes, "no device in this trace: idle time is that of the busiest thread")
    if not len(index):
        return _nothing(trace, (*trace.notes, "no device and no operators in this trace"))
    lane = int(np.argmax(np.bincount(trace.lane_ids[index], weights=own_us)))
    chosen = kinds.host & (trace.lane_ids == lane)
    busy = _spans(trace, chosen)
    idle = gaps(busy)
    longest = _longest(trace, kinds, idle, ["no operator runs"] * len(idle.starts), lane, chosen)
    return Breakdown(
        span_us=float(busy.ends[-1] - busy.starts[0]),
        events=len(trace),
        has_device=False,
        device_rows=(),
        host_rows=host_rows,
        busy_us={"operators": busy.length},
        exposed_us={},
        idle_us=idle.length,
        idle_causes_us={"no operator runs": idle.length},
        cpu_bound_us=busy.length,
        gaps=longest,
        gap_count=len(idle.starts),
        lane=trace.lane_name(lane),
        notes=notes,
    )


def _nothing(trace: Trace, notes: tuple[str, ...]) -> Breakdown:
    return Breakdown(
        span_us=trace.span_us, events=len(trace), has_device=False, device_rows=(), host_rows=(), busy_us={},
        exposed_us={}, idle_us=0.0, idle_causes_us={}, cpu_bound_us=0.0, gaps=(), gap_count=0, lane="", notes=notes,
    )  # fmt: skip


def _longest(
    trace: Trace, kinds: Kinds, idle: Spans, causes: Sequence[str], lane: int | None = None, chosen: Flags | None = None
) -> tuple[Gap, ...]:
    work = kinds.device if chosen is None else chosen
    length = idle.ends - idle.starts
    found = []
    for at in np.argsort(-length)[:MOST_GAPS]:
        start_us, end_us = float(idle.starts[at]), float(idle.ends[at])
        before = np.flatnonzero(work & (np.abs(trace.end_us - start_us) < 1e-6))
        after = np.flatnonzero(work & (np.abs(trace.start_us - end_us) < 1e-6))
        middle_us = (start_us + end_us) / 2
        host = innermost(trace, kinds.python | kinds.host, lane, middle_us) or innermost(
            trace, ~kinds.device & ~kinds.step, lane, middle_us
        )
        found.append(
            Gap(
                start_us=start_us,
                length_us=end_us - start_us,
                cause=causes[at],
                before=_name(trace, before),
                after=_name(trace, after),
                host=host,
            )
        )
    return tuple(found)


def _name(trace: Trace, index: Ints) -> str:
    return trace.names[int(trace.name_ids[index[0]])] if len(index) else ""
