"""Sets of time intervals as two arrays: union, length, overlap, gaps. All of it vectorised.

A union is ordered and disjoint. Times are in the unit of the input.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from probes.trace.profile.columns import Floats


class Spans(NamedTuple):
    """Disjoint intervals in order."""

    starts: Floats
    ends: Floats

    @property
    def length(self) -> float:
        """Their total length."""
        return float((self.ends - self.starts).sum())


NOTHING = Spans(np.empty(0), np.empty(0))


def union(starts: Floats, ends: Floats) -> Spans:
    """The union of any intervals. Touching ones become one; empty ones vanish."""
    real = ends > starts
    starts, ends = starts[real], ends[real]
    if not len(starts):
        return NOTHING
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((np.flatnonzero(first)[1:] - 1, [len(starts) - 1]))
    return Spans(starts[first], reach[last])


def gaps(spans: Spans) -> Spans:
    """What lies between the first start and the last end and is not covered."""
    return Spans(spans.ends[:-1], spans.starts[1:]) if len(spans.starts) else NOTHING


def covered(spans: Spans, starts: Floats, ends: Floats) -> Floats:
    """How much of each asked interval the union covers."""
    if not len(spans.starts):
        return np.zeros(len(starts))
    return _up_to(spans, ends) - _up_to(spans, starts)


def overlap(one: Spans, other: Spans) -> float:
    """The length that both cover."""
    return float(covered(one, other.starts, other.ends).sum())


def _up_to(spans: Spans, times: Floats) -> Floats:
    """Covered length before each time."""
    lengths = spans.ends - spans.starts
    before = np.concatenate(([0.0], np.cumsum(lengths)))
    index = np.searchsorted(spans.starts, times, side="right")
    partial = np.where(index > 0, np.minimum(times - spans.starts[index - 1], lengths[index - 1]), 0.0)
    return np.where(index > 0, before[np.maximum(index - 1, 0)] + partial, 0.0)
