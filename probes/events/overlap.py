"""How many requests really decode at once: tells a server that batches from one that serves one after another.

A pure function over the load probe's records: no tracing, no cost. Time counts only while at least two requests are
in flight, since one request alone says nothing about batching.
Covered: overlap of decoding, serial service, waiting behind others. Not covered: what the server does inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probes.base import Cost, Observation, Quantity, Rung, Verdict, Where
from probes.load.timeline import decoding_interval, segments, waited_for_others_s, weighted_mean
from probes.load.types import RequestRecord

NAME = "events.overlap"
MIN_REQUESTS = 4
SERIAL_MEAN = 1.15
MIN_DECODING_SHARE = 0.2
MIN_TIMED_SHARE = 0.8
"""An answer of one token or one chunk shows no decoding; some of them among many do not hide what the others show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Counts over the time in which two or more requests were in flight (`shared_s` seconds of it).

    `decoding_mean`: requests between first and last token, time-weighted. `decoding_mean_active`: the same over the
    moments in which any request decodes, so that long prefills do not look like serial service. `queue_share`: part
    of all time to first token spent while others decoded. `queue_wait_share`: that time as part of whole requests.
    """

    shared_s: float
    in_flight_mean: float
    in_flight_max: int
    decoding_mean: float
    decoding_mean_active: float
    decoding_max: int
    decoding_share: float
    queue_share: float
    queue_wait_share: float
    interval_s: tuple[float, float]

    @property
    def serialised(self) -> bool:
        """Two or more requests wait while one is served."""
        return self.decoding_max == 1 or self.decoding_mean_active <= SERIAL_MEAN


def measure(records: Sequence[RequestRecord]) -> Overlap | str:
    """The overlap, or in words why these records cannot show it."""
    good = [record for record in records if record.ok]
    if len(good) < MIN_REQUESTS:
        return f"{len(good)} complete answers; at least {MIN_REQUESTS} are needed"
    timed = sum(decoding_interval(record) is not None for record in good)
    if timed < MIN_TIMED_SHARE * len(good):
        missing = len(good) - timed
        return f"{missing} of {len(good)} answers have no first and last token apart (not streamed, or one chunk)"
    parts = segments(records)
    shared = [part for part in parts if part.in_flight >= 2]
    active = [part for part in shared if part.decoding >= 1]
    shared_s, active_s = sum(part.length_s for part in shared), sum(part.length_s for part in active)
    if shared_s <= 0:
        return "never two requests in flight at once"
    if active_s < MIN_DECODING_SHARE * shared_s:
        return f"decoding fills only {active_s / shared_s:.0%} of the time: answers are too short to overlap"
    waits_s = [waited_for_others_s(record, parts) for record in good]
    firsts_s = [record.first_token_s - record.sent_s for record in good if record.first_token_s is not None]
    wholes_s = [record.last_token_s - record.sent_s for record in good if record.last_token_s is not None]
    return Overlap(
        shared_s=shared_s,
        in_flight_mean=weighted_mean(shared, lambda part: part.in_flight) or 0.0,
        in_flight_max=max(part.in_flight for part in shared),
        decoding_mean=weighted_mean(shared, lambda part: part.decoding) or 0.0,
        decoding_mean_active=weighted_mean(active, lambda part: part.decoding) or 0.0,
        decoding_max=max(part.decoding for part in shared),
        decoding_share=active_s / shared_s,
        queue_share=sum(waits_s) / sum(firsts_s),
        queue_wait_share=sum(waits_s) / sum(wholes_s),
        interval_s=(shared[0].start_s, shared[-1].end_s),
    )


def observe(records: Sequence[RequestRecord], *, wall_s: float = 0.0) -> Observation:
    """The overlap as an observation tied to the interval it was seen in. `wall_s`: what deriving it cost."""
    overlap = measure(records)
    cost = Cost(wall_s=wall_s)
    if isinstance(overlap, str):
        return Observation(
            probe=NAME,
            rung=Rung.EVENTS,
            verdict=Verdict.INCONCLUSIVE,
            summary=f"cannot tell: {overlap}",
            where=_whole(records),
            cost=cost,
        )
    return Observation(
        probe=NAME,
        rung=Rung.EVENTS,
        verdict=Verdict.PASS,
        summary=_sentence(overlap),
        where=Where(interval_s=overlap.interval_s),
        cost=cost,
        quantities=(
            Quantity(name="decoding_mean", value=overlap.decoding_mean, unit="requests", n=len(records)),
            Quantity(name="in_flight_mean", value=overlap.in_flight_mean, unit="requests", n=len(records)),
            Quantity(name="queue_wait_share", value=overlap.queue_wait_share, unit="1", n=len(records)),
        ),
        signals=signals(overlap),
        detail={"shared_s": overlap.shared_s, "decoding_share": overlap.decoding_share},
    )


def signals(overlap: Overlap) -> dict[str, float | str | bool]:
    """Facts that playbooks match on."""
    return {
        "serialised": overlap.serialised,
        "decoding_max": overlap.decoding_max,
        "decoding_mean": overlap.decoding_mean,
        "decoding_mean_active": overlap.decoding_mean_active,
        "in_flight_mean": overlap.in_flight_mean,
        "in_flight_max": overlap.in_flight_max,
        "queue_share": overlap.queue_share,
        "queue_wait_share": overlap.queue_wait_share,
    }


def _sentence(overlap: Overlap) -> str:
    at_once = f"{overlap.decoding_mean_active:.1f}".removesuffix(".0")
    text = f"{at_once} of {overlap.in_flight_max} requests decoding at a time"
    waited = f"{overlap.queue_wait_share:.0%} of request time spent waiting behind others"
    return f"{text}; {waited}" if overlap.serialised else text


def _whole(records: Sequence[RequestRecord]) -> Where:
    if not records:
        return Where(whole_system=True)
    return Where(interval_s=(min(r.sent_s for r in records), max(r.end_s for r in records)))
