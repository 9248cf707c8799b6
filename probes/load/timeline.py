"""How many intervals hold at each moment: in-flight requests, decoding requests, and times when both matter.

Pure functions over (start, end) pairs in seconds. An interval that ends where another begins does not overlap it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from probes.load.types import RequestRecord

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time during which both counts are constant."""

    start_s: float
    end_s: float
    in_flight: int
    decoding: int

    @property
    def length_s(self) -> float:
        """Duration in seconds."""
        return self.end_s - self.start_s


def in_flight_interval(record: RequestRecord) -> Interval:
    """From the moment of sending until the response was read to its end."""
    return record.sent_s, record.end_s


def decoding_interval(record: RequestRecord) -> Interval | None:
    """From the first token to the last; None when there are no two moments."""
    first, last = record.first_token_s, record.last_token_s
    return (first, last) if first is not None and last is not None and last > first else None


def segments(records: Iterable[RequestRecord]) -> tuple[Segment, ...]:
    """The window cut wherever a request is sent, starts or stops decoding, or ends."""
    steps: dict[float, list[int]] = {}
    for record in records:
        for which, interval in enumerate((in_flight_interval(record), decoding_interval(record))):
            if interval is not None:
                for moment, step in zip(interval, (1, -1), strict=True):
                    steps.setdefault(moment, [0, 0])[which] += step
    moments = sorted(steps)
    in_flight = decoding = 0
    out = []
    for start, end in zip(moments, moments[1:], strict=False):
        in_flight += steps[start][0]
        decoding += steps[start][1]
        out.append(Segment(start, end, in_flight, decoding))
    return tuple(out)


def weighted_mean(parts: Sequence[Segment], value: Callable[[Segment], float]) -> float | None:
    """Time-weighted mean of a count over these segments; None over no time at all."""
    total_s = sum(part.length_s for part in parts)
    return sum(value(part) * part.length_s for part in parts) / total_s if total_s > 0 else None


def steady_parts(parts: Sequence[Segment], share: float = 0.9) -> tuple[Segment, ...]:
    """Segments in which at least `share` of the peak number of requests is in flight."""
    peak = max((part.in_flight for part in parts), default=0)
    return tuple(part for part in parts if peak and part.in_flight >= share * peak)


def waited_for_others_s(record: RequestRecord, parts: Sequence[Segment]) -> float:
    """Time between sending and the first token during which some other request was decoding."""
    if record.first_token_s is None:
        return 0.0
    end_s = record.first_token_s
    return sum(
        part.length_s for part in parts if part.decoding > 0 and part.start_s >= record.sent_s and part.end_s <= end_s
    )
