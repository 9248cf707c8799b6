"""Two traces of the same work: what got slower, by how much, and in which interval.

Both are laid beside each other event by event on their busiest lane: the k-th occurrence of a name in one is the k-th
in the other. The time from each matched event to the next then differs by little everywhere, except where something
got slower; the stretch that gathered the most delay above the ordinary difference is the interval, and what it is made
of is told by name, gaps included.
Covered: device lanes and host threads, traces of unequal length, work that only one of them has.
Not covered: a program that does its work in another order; it is told as such.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from probes.trace.profile.columns import Flags, Floats, Ints, Trace
from probes.trace.profile.kinds import kinds_of
from probes.trace.profile.nesting import self_times

MOST_PARTS = 8
NOISE_SIGMAS = 3.0
LEAST_SHARE = 0.005
"""Delay below this share of the first trace is no finding."""
SPREAD = 2**40
"""Room for occurrences below a name's number."""
FEW_CROSSED = 0.999
"""Share of pairs in order from which on leaving out the others costs nothing."""
MATCHED = 0.5
"""Share of events that must have a partner for the comparison to mean anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one name adds to the delay. `calls_a`, `calls_b`: how often it ran in the interval."""

    name: str
    delay_us: float
    mean_a_us: float
    mean_b_us: float
    calls_a: int
    calls_b: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A stretch in which B lost time against A. Times are seconds after each trace's first event."""

    a_s: tuple[float, float]
    b_s: tuple[float, float]
    delay_us: float
    share_of_all: float
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The comparison. `interval` is None when nothing stands out; `diverges_at` tells the first other event."""

    span_a_us: float
    span_b_us: float
    matched: int
    matched_share: float
    interval: Interval | None
    parts: tuple[Part, ...]
    diverges_at: str
    lane: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Lane:
    """The events of a trace's busiest lane, in order, with the time each took by itself."""

    trace: Trace
    index: Ints
    own_us: Floats
    name: str

    @property
    def starts_us(self) -> Floats:
        return self.trace.start_us[self.index]

    def names(self) -> list[str]:
        return [self.trace.names[number] for number in self.trace.name_ids[self.index].tolist()]


def compare(a: Trace, b: Trace) -> Difference:
    """B against A."""
    one, other = _lane(a), _lane(b)
    span_a, span_b = _span(one), _span(other)
    if not len(one.index) or not len(other.index):
        return _none(span_a, span_b, 0, 0.0, one.name, "", "one of the traces has no work of device or host")
    names = _common(one, other)
    left, right = _partners(*names)
    share = len(left) / max(len(one.index), len(other.index))
    diverges = _divergence(one, other, *names)
    parts = _parts(one, other, *names, np.arange(len(one.index)), np.arange(len(other.index)))
    if share < MATCHED or len(left) < 3:
        reason = f"only {share:.0%} of the events have a partner: these traces did different work"
        return _none(span_a, span_b, len(left), share, one.name, diverges, reason, parts)
    interval = _slowest(one, other, left, right, names, span_a)
    return Difference(
        span_a_us=span_a,
        span_b_us=span_b,
        matched=len(left),
        matched_share=share,
        interval=interval,
        parts=parts,
        diverges_at=diverges,
        lane=one.name,
        reason="" if interval else _evenly(span_a, span_b),
    )


def _evenly(span_a: float, span_b: float) -> str:
    growth = span_b / span_a - 1 if span_a else 0.0
    if abs(growth) < LEAST_SHARE:
        return "no stretch of B lost more time than the ordinary difference between the two"
    word = "longer" if growth > 0 else "shorter"
    return f"B is {abs(growth):.1%} {word}, but evenly: no single stretch stands out"


def _none(
    span_a: float, span_b: float, matched: int, share: float, lane: str, diverges: str, reason: str,
    parts: tuple[Part, ...] = (),
) -> Difference:  # fmt: skip
    return Difference(
        span_a_us=span_a, span_b_us=span_b, matched=matched, matched_share=share, interval=None, parts=parts,
        diverges_at=diverges, lane=lane, reason=reason,
    )  # fmt: skip


def _lane(trace: Trace) -> _Lane:
    kinds = kinds_of(trace)
    if kinds.device.any():
        device = np.flatnonzero(kinds.device)
        lane = int(np.argmax(np.bincount(trace.lane_ids[device], weights=trace.length_us[device])))
        index = device[trace.lane_ids[device] == lane]
        return _Lane(trace, index, trace.length_us[index], trace.lane_name(lane))
    return _host_lane(trace, kinds.host)


def _host_lane(trace: Trace, chosen: Flags) -> _Lane:
    index, own_us, _ = self_times(trace, chosen)
    if not len(index):
        return _Lane(trace, index, own_us, "")
    lane = int(np.argmax(np.bincount(trace.lane_ids[index], weights=own_us)))
    here = trace.lane_ids[index] == lane
    return _Lane(trace, index[here], own_us[here], trace.lane_name(lane))


def _span(lane: _Lane) -> float:
    if not len(lane.index):
        return 0.0
    return float(lane.trace.end_us[lane.index].max() - lane.starts_us[0])


def _common(one: _Lane, other: _Lane) -> tuple[Ints, Ints]:
    """The names of both lanes, numbered alike."""
    known = {name: number for number, name in enumerate(one.trace.names)}
    numbers = [known.setdefault(name, len(known)) for name in other.trace.names]
    return one.trace.name_ids[one.index], np.asarray(numbers, dtype=np.int64)[other.trace.name_ids[other.index]]


def _partners(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Positions in both lanes of the k-th occurrence of each name, in A's order; crossed pairs are left out."""
    one, other = left * SPREAD + _occurrence(left), right * SPREAD + _occurrence(right)
    _, at_left, at_right = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    order = np.argsort(at_left)
    at_left, at_right = at_left[order], at_right[order]
    forward = _in_order(at_right)
    return at_left[forward], at_right[forward]


def _in_order(positions: Ints) -> Ints:
    """Indices of a longest rising part: one pair that jumps far ahead must not cost all that follow it."""
    rising = positions >= np.maximum.accumulate(positions)
    if not len(positions) or rising.mean() >= FEW_CROSSED:
        return np.flatnonzero(rising)
    tails: list[int] = []
    tail_at: list[int] = []
    before = [-1] * len(positions)
    for at, position in enumerate(positions.tolist()):
        length = bisect_left(tails, position)
        before[at] = tail_at[length - 1] if length else -1
        tails[length : length + 1] = [position]
        tail_at[length : length + 1] = [at]
    chain, at = [], tail_at[-1]
    while at >= 0:
        chain.append(at)
        at = before[at]
    return np.asarray(chain[::-1], dtype=np.int64)


def _occurrence(names: Ints) -> Ints:
    """How many events of the same name came before each."""
    order = np.argsort(names, kind="stable")
    ordered = names[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    begins = np.flatnonzero(first)
    lengths = np.diff(np.concatenate((begins, [len(ordered)])))
    counted = np.empty(len(names), dtype=np.int64)
    counted[order] = np.arange(len(names)) - np.repeat(begins, lengths)
    return counted


def _slowest(
    one: _Lane, other: _Lane, left: Ints, right: Ints, names: tuple[Ints, Ints], span_a: float
) -> Interval | None:
    """The stretch of matched events whose delays sum to the most, each less the ordinary difference."""
    delays = np.diff(other.starts_us[right]) - np.diff(one.starts_us[left])
    middle = float(np.median(delays))
    spread = 1.4826 * float(np.median(np.abs(delays - middle)))
    begin, end = _largest_sum(delays - middle - NOISE_SIGMAS * spread / np.sqrt(len(delays)) - _slack(delays))
    delay = float(delays[begin:end].sum() - middle * (end - begin))
    if end <= begin or delay < LEAST_SHARE * span_a or delay < NOISE_SIGMAS * spread * np.sqrt(end - begin):
        return None
    here_a, here_b = np.arange(left[begin], left[end]), np.arange(right[begin], right[end])
    growth = _span(other) - span_a
    return Interval(
        a_s=_seconds(one, int(left[begin]), int(left[end])),
        b_s=_seconds(other, int(right[begin]), int(right[end])),
        delay_us=delay,
        share_of_all=delay / growth if growth > 0 else 1.0,
        parts=_parts(one, other, *names, here_a, here_b),
    )


def _slack(delays: Floats) -> float:
    """What every event must lose beyond the ordinary for the stretch to go on: a share of the largest mean loss."""
    worst = np.sort(delays)[-max(1, len(delays) // 100) :]
    return 0.02 * max(0.0, float(worst.mean()))


def _largest_sum(values: Floats) -> tuple[int, int]:
    """Begin and end of the contiguous stretch with the largest sum."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    begin = int(np.argmin(sums[: end + 1]))
    return begin, end


def _seconds(lane: _Lane, begin: int, end: int) -> tuple[float, float]:
    return float(lane.starts_us[begin] / 1e6), float(lane.starts_us[end] / 1e6)


def _parts(
    one: _Lane, other: _Lane, left: Ints, right: Ints, here_a: Ints, here_b: Ints
) -> tuple[Part, ...]:  # fmt: skip
    """The delay by name, and what lies between events as `(gaps)`."""
    size = int(max(left.max(initial=0), right.max(initial=0))) + 1
    total_a, total_b, count_a, count_b = (
        np.bincount(names[here], weights=weights, minlength=size)
        for names, here, weights in (
            (left, here_a, one.own_us[here_a]),
            (right, here_b, other.own_us[here_b]),
            (left, here_a, None),
            (right, here_b, None),
        )
    )
    texts = _texts(one, other, size)
    delay = total_b - total_a
    found = [
        Part(
            name=texts[at],
            delay_us=float(delay[at]),
            mean_a_us=float(total_a[at] / max(1, count_a[at])),
            mean_b_us=float(total_b[at] / max(1, count_b[at])),
            calls_a=int(count_a[at]),
            calls_b=int(count_b[at]),
        )
        for at in np.argsort(-np.abs(delay))[:MOST_PARTS].tolist()
        if delay[at]
    ]
    pause_a, pause_b = _pauses(one, here_a), _pauses(other, here_b)
    gaps = Part(
        name="(gaps)", delay_us=pause_b - pause_a, mean_a_us=pause_a / max(1, len(here_a)),
        mean_b_us=pause_b / max(1, len(here_b)), calls_a=len(here_a), calls_b=len(here_b),
    )  # fmt: skip
    return tuple(sorted([*found, gaps], key=lambda part: -part.delay_us))


def _pauses(lane: _Lane, here: Ints) -> float:
    """Time of the stretch in which no event of the lane ran."""
    if not len(here):
        return 0.0
    first, last = int(here[0]), int(here[-1])
    ends = lane.trace.end_us[lane.index[first : last + 1]]
    return max(0.0, float(ends.max() - lane.starts_us[first]) - float(lane.own_us[here].sum()))


def _texts(one: _Lane, other: _Lane, size: int) -> list[str]:
    known = list(one.trace.names)
    seen = set(known)
    known += [name for name in other.trace.names if name not in seen]
    return known[:size]


def _divergence(one: _Lane, other: _Lane, left: Ints, right: Ints) -> str:
    """The first event at which the two lanes run something else; empty when one is the beginning of the other."""
    count = min(len(left), len(right))
    unequal = np.flatnonzero(left[:count] != right[:count])
    if len(unequal):
        at = int(unequal[0])
        texts = _texts(one, other, int(max(left.max(), right.max())) + 1)
        here_s = one.starts_us[at] / 1e6
        return f"event {at} at {here_s:.6f} s: A runs {texts[left[at]]}, B runs {texts[right[at]]}"
    if len(left) != len(right):
        longer = "A" if len(left) > len(right) else "B"
        return f"after {count} equal events {longer} goes on"
    return ""
