"""The steady part of a window: without the time in which the load builds up and runs out.

A closed loop is steady while at least 90 % of its peak is in flight. Open arrivals are steady from the first complete
answer (before it the server fills up) to the last send (after it the server only drains).
Covered: which stretches these are, and how many tokens arrived in them. Not covered: a server that is never steady.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from probes.load.timeline import Interval, segments, steady_parts
from probes.load.types import Closed, LoadRequest, RequestRecord

MIN_SHARE = 0.1


def steady_bounds(records: Sequence[RequestRecord], request: LoadRequest, window_s: float) -> list[Interval] | str:
    """The steady stretches in order of time, or in words why there are none worth a figure."""
    if isinstance(request.arrivals, Closed):
        bounds = [(part.start_s, part.end_s) for part in steady_parts(segments(records))]
        why = "had 90 % of the peak in flight"
    else:
        start_s = min((record.end_s for record in records if record.ok), default=0.0)
        end_s = max((record.sent_s for record in records), default=0.0)
        bounds = [(start_s, end_s)] if end_s > start_s else []
        why = "lay between the first complete answer and the last send (open arrivals)"
    length_s = sum(end_s - start_s for start_s, end_s in bounds)
    return bounds if length_s >= MIN_SHARE * window_s else f"only {length_s / window_s:.0%} of the window {why}"


def tokens_within(record: RequestRecord, bounds: Sequence[Interval]) -> float:
    """Tokens of one answer inside these stretches; where a chunk's own count is unknown, each carries an equal part."""
    if not record.chunk_times_s or not record.output_tokens:
        return 0.0
    edges = np.asarray(bounds)
    times = np.asarray(record.chunk_times_s)
    # A token belongs to (start, end]: the one that ends a request was made while that request was in flight.
    index = np.searchsorted(edges[:, 0], times, side="left") - 1
    inside = (index >= 0) & (times <= edges[np.maximum(index, 0), 1])
    if record.chunk_tokens is not None and sum(record.chunk_tokens) == record.output_tokens:
        return float(np.asarray(record.chunk_tokens)[inside].sum())
    return record.output_tokens * float(inside.sum()) / len(times)
