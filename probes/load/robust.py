"""Stalls inside a window: found in its silences, and taken off its clock.

A *silence* is a stretch of time in which requests are in flight and no content arrives from any of them. Whatever
recurs (a prompt being read, a decoding step, a flush every second) is how the engine works, and it counts. A *stall* is
a silence that comes once or twice and is far longer than all that recur. Stopping the clock for as long as a stall
lasts beyond its kind's usual length gives the figures that the window would have had without it; a window without a
stall keeps its figures exactly. Stalls are told (`Stall`), never dropped silently: judging them is the caller's work.

Pure functions. Covered: pauses of the whole engine, streamed answers, closed and open arrivals (idle time is silent,
but no silence). Not covered: a window that is slow from end to end (nothing inside it shows that); a pause of one
request while others go on; answers that are not streamed; the silence before a window's first content, which nothing
of its kind precedes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from probes.load.types import RequestRecord

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

STALL_FACTOR = 3.0
"""A stall lasts longer than this many times the longest silence that recurs."""
STALL_SHARE = 0.05
"""And longer, beyond its usual length, than this share of the window: less does not matter."""
RARE = 2
"""So many silences of a window may be stalls, and one more per `REQUESTS_PER_RARE` requests; the rest recurs."""
REQUESTS_PER_RARE = 50
MIN_SILENCES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One stall, in window seconds. `excess_s`: how much longer it lasted than silences of its kind usually do."""

    start_s: float
    end_s: float
    excess_s: float


def find_stalls(records: Sequence[RequestRecord]) -> tuple[Stall, ...] | None:
    """The stalls of a window, oldest first; None when its answers hold too few token times to tell."""
    ends_s, opens = _contents(records)
    if ends_s.size < MIN_SILENCES:
        return None
    moments_s = np.concatenate([[min(record.sent_s for record in records)], ends_s])
    silences_s = np.diff(_in_flight_time(records, moments_s))
    beyond_s = excess_s(silences_s[None, :], opens[None, :], rare_silences(len(records)))[0]
    return tuple(
        Stall(start_s=float(moments_s[i]), end_s=float(ends_s[i]), excess_s=float(beyond_s[i]))
        for i in np.flatnonzero(beyond_s)
    )


def without_stalls(records: Sequence[RequestRecord], stalls: Sequence[Stall]) -> tuple[RequestRecord, ...]:
    """The same records by a clock that stands still at the end of each stall for as long as its excess."""
    if not stalls:
        return tuple(records)

    def moved(time_s: float) -> float:
        lost_s = sum(min(max(time_s - (stall.end_s - stall.excess_s), 0.0), stall.excess_s) for stall in stalls)
        return time_s - lost_s

    def maybe(time_s: float | None) -> float | None:
        return None if time_s is None else moved(time_s)

    return tuple(
        replace(
            record,
            scheduled_s=moved(record.scheduled_s),
            sent_s=moved(record.sent_s),
            end_s=moved(record.end_s),
            first_token_s=maybe(record.first_token_s),
            first_answer_s=maybe(record.first_answer_s),
            last_token_s=maybe(record.last_token_s),
            chunk_times_s=tuple(moved(time_s) for time_s in record.chunk_times_s),
        )
        for record in records
    )


def rare_silences(requests: int) -> int:
    """How many silences of a window of so many requests may be stalls."""
    return RARE + requests // REQUESTS_PER_RARE


def excess_s(silences_s: FloatArray, opens: BoolArray, rare: int = RARE) -> FloatArray:
    """How much of each silence is a stall's excess; 0 for one that is none. One window per row, silences in time order.

    `opens`: the silence ended with the first content of an answer; such silences are one kind, all others the other.
    """
    found = np.zeros_like(silences_s)
    recurring_s = np.partition(silences_s, -(rare + 1), axis=1)[:, [-(rare + 1)]]
    long = silences_s > STALL_FACTOR * recurring_s
    long[:, 0] = False
    rows = np.flatnonzero(long.any(axis=1))
    if rows.size == 0:
        return found
    silences_s, long = silences_s[rows], long[rows]
    opens = np.broadcast_to(opens, found.shape)[rows]
    usual_s = np.where(opens, _usual_s(silences_s, opens & ~long), _usual_s(silences_s, ~opens & ~long))
    beyond_s = np.where(long, silences_s - usual_s, 0.0)
    found[rows] = np.where(beyond_s > STALL_SHARE * silences_s.sum(axis=1, keepdims=True), beyond_s, 0.0)
    return found


def _usual_s(silences_s: FloatArray, peers: BoolArray) -> FloatArray:
    """Per row, as a column: half of the time that peers take passes in silences up to this one.

    Weighted by time, because a stall begins at a random moment and not at a random silence: contents that come in one
    batch are apart by next to nothing and are most silences, but hardly any time. 0 where there are no peers.
    """
    ordered_s = np.sort(np.where(peers, silences_s, 0.0), axis=1)
    passed_s = np.cumsum(ordered_s, axis=1)
    middle = (passed_s >= passed_s[:, [-1]] / 2).argmax(axis=1)
    usual_s: FloatArray = ordered_s[np.arange(len(ordered_s)), middle]
    return usual_s[:, None]


def _contents(records: Sequence[RequestRecord]) -> tuple[FloatArray, BoolArray]:
    """Arrival times of all contents in order, and which of them is the first of its answer."""
    times_s = np.asarray([time_s for record in records for time_s in record.chunk_times_s], dtype=np.float64)
    opens = np.asarray([i == 0 for record in records for i in range(len(record.chunk_times_s))], dtype=np.bool_)
    order = np.argsort(times_s, kind="stable")
    return times_s[order], opens[order]


def _in_flight_time(records: Sequence[RequestRecord], moments_s: FloatArray) -> FloatArray:
    """Seconds up to each moment in which at least one request was in flight."""
    edges_s, passed_s = [0.0], [0.0]
    covered_s = -np.inf
    for sent_s, end_s in sorted((record.sent_s, record.end_s) for record in records):
        if end_s <= covered_s:
            continue
        start_s = max(sent_s, covered_s)
        edges_s += [start_s, end_s]
        passed_s += [passed_s[-1], passed_s[-1] + end_s - start_s]
        covered_s = end_s
    return np.asarray(np.interp(moments_s, edges_s[1:], passed_s[1:]), dtype=np.float64)
