"""Nested events of one thread: how long each lasted without what it called, and what was on top at a moment.

Covered: events that nest, as calls do; events that overlap without nesting are cut at their neighbour's start.
Not covered: asynchronous events, which have no stack.
"""

from __future__ import annotations

import numpy as np

from probes.trace.profile.columns import Flags, Floats, Ints, Trace


def self_times(trace: Trace, chosen: Flags) -> tuple[Ints, Floats, Ints]:
    """Indices of the chosen events by lane and start, their own time without children, and their depth."""
    index = np.flatnonzero(chosen)
    order = np.lexsort((-trace.length_us[index], trace.start_us[index], trace.lane_ids[index]))
    index = index[order]
    starts, ends = trace.start_us[index].tolist(), trace.end_us[index].tolist()
    lanes = trace.lane_ids[index].tolist()
    own = (trace.length_us[index]).tolist()
    depths = [0] * len(own)
    stack: list[int] = []
    lane = None
    for at, start in enumerate(starts):
        if lanes[at] != lane:
            stack, lane = [], lanes[at]
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        if stack:
            own[stack[-1]] -= min(ends[at], ends[stack[-1]]) - start
        depths[at] = len(stack)
        stack.append(at)
    return index, np.maximum(np.asarray(own, dtype=np.float64), 0.0), np.asarray(depths, dtype=np.int64)


def innermost(trace: Trace, chosen: Flags, lane: int | None, at_us: float) -> str:
    """The name of the deepest chosen event that was open at a moment; empty when none was."""
    open_now = chosen & (trace.start_us <= at_us) & (trace.end_us > at_us)
    if lane is not None:
        open_now &= trace.lane_ids == lane
    index = np.flatnonzero(open_now)
    return trace.names[int(trace.name_ids[index[np.argmin(trace.length_us[index])]])] if len(index) else ""
