"""Was the load that was asked for the load that was offered? Checks of arrivals, concurrency and the client's delay.

Covered: closed loops, planned arrivals of any kind, a window that ends by count, by duration or at its time limit.
Not covered: what the server did with the load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from probes.base import Check
from probes.load.arrivals import Closed, describe
from probes.load.schedule import planned_times_s
from probes.load.spread import TRACE_SLACK, dispersion_limits, lag_limit, spread_of
from probes.load.timeline import segments, weighted_mean
from probes.load.types import LoadRequest, RequestRecord, Window

LAG_P99_FACTOR = 5
LAG_MAX_FACTOR = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the checks.

    The client's wake-ups may be late by `lag_share` of the mean TTFT or by `lag_floor_s`, whichever is more, on
    average, since that is how far means are moved; one in a hundred by 5 times that, a single one by 30 times. (Two
    cores saturated by the engine and a 4 ms scheduler tick alone give a mean of 2 ms and a p99 of 10 ms.)
    """

    allowed_failures: int = 0
    lag_share: float = 0.01
    lag_floor_s: float = 0.003
    in_flight_share: float = 0.95
    rate_share: float = 0.01


def planned_requests(request: LoadRequest, sent: int) -> int:
    """Requests that the window was to send: all of them, or those that its duration leaves time for."""
    if request.duration_s is None:
        return request.requests
    if isinstance(request.arrivals, Closed):
        return max(sent, 1)
    times_s = planned_times_s(request.arrivals, request.requests, request.seed)
    return sum(time_s < request.duration_s for time_s in times_s)


def offered(records: Sequence[RequestRecord], request: LoadRequest, limits: Limits) -> Iterator[Check]:
    """Checks of the offered load."""
    if isinstance(request.arrivals, Closed):
        yield from _concurrency(records, request, limits)
    else:
        yield _rate(records, limits)
        yield from _spread(records, request)


def _concurrency(records: Sequence[RequestRecord], request: LoadRequest, limits: Limits) -> Iterator[Check]:
    asked = min(request.concurrency or 1, len(records))
    parts = segments(records)
    peak = max((part.in_flight for part in parts), default=0)
    yield Check(name="peak in flight", ok=peak == asked, measured=f"{peak}", limit=f"{asked}")
    first_s, last_s = min(r.sent_s for r in records), max(r.sent_s for r in records)
    if len(records) > asked:
        loaded = [part for part in parts if first_s <= part.start_s and part.end_s <= last_s]
        mean = weighted_mean(loaded, lambda part: part.in_flight) or 0.0
        floor = limits.in_flight_share * asked
        yield Check(name="mean in flight", ok=mean >= floor, measured=f"{mean:.2f}", limit=f"at least {floor:.2f}")


def _rate(records: Sequence[RequestRecord], limits: Limits) -> Check:
    """The client kept the drawn schedule. (A random draw itself scatters around the asked rate by chance.)"""
    sent, due = [r.sent_s for r in records], [r.scheduled_s for r in records]
    planned_s, taken_s = max(due), max(sent)
    if planned_s <= 0:  # a single arrival, or all at once: there is no rate to keep
        late_s = max(taken_s, 0.0)
        return Check(
            name="arrival rate", ok=True, measured=f"all due at once, sent within {late_s:.3g} s", limit="none"
        )
    error = abs(planned_s / taken_s - 1) if taken_s > 0 else 1.0
    return Check(
        name="arrival rate",
        ok=error <= limits.rate_share,
        measured=f"{len(records) / taken_s:.4g}/s sent, {len(records) / planned_s:.4g}/s drawn",
        limit=f"within {limits.rate_share:.0%} of the drawn schedule",
    )


def _spread(records: Sequence[RequestRecord], request: LoadRequest) -> Iterator[Check]:
    """Arrivals came as spread out, and as independent of each other, as their kind says."""
    if isinstance(request.arrivals, Closed):
        return
    sent = spread_of([record.sent_s for record in records], request.arrivals)
    drawn = spread_of([record.scheduled_s for record in records], request.arrivals)
    if sent is None or drawn is None:
        return
    bounds = dispersion_limits(request.arrivals, drawn)
    low, high = bounds or (drawn.dispersion - TRACE_SLACK, drawn.dispersion + TRACE_SLACK)
    yield Check(
        name="arrival dispersion",
        ok=low <= sent.dispersion <= high and low <= drawn.dispersion <= high,
        measured=f"{sent.dispersion:.2f} sent, {drawn.dispersion:.2f} planned ({describe(request.arrivals)})",
        limit=f"{low:.2f} to {high:.2f}",
    )
    most = lag_limit(request.arrivals, len(records))
    if most is not None:
        yield Check(
            name="arrivals independent",
            ok=abs(drawn.lag_one) <= most and abs(sent.lag_one) <= most,
            measured=f"lag-1 correlation of gaps {sent.lag_one:.3f}",
            limit=f"at most {most:.3f}",
        )


def client_delay(window: Window, good: Sequence[RequestRecord], limits: Limits) -> Check:
    """The client's own lateness: in waking, in reading, in sending. Waiting for a connection is not counted."""
    firsts = [r.first_token_s - r.sent_s for r in good if r.first_token_s is not None]
    spans = firsts or [r.end_s - r.sent_s for r in good]
    limit_s = max(limits.lag_floor_s, limits.lag_share * sum(spans) / len(spans))
    lag = window.lag
    late_s = max((r.sent_s - r.scheduled_s - r.connect_s for r in window.records), default=0.0)
    seen_s = (lag.mean_s, lag.p99_s, max(lag.max_s, late_s))
    allowed_s = (limit_s, LAG_P99_FACTOR * limit_s, LAG_MAX_FACTOR * limit_s)
    return Check(
        name="client delay",
        ok=lag.beats > 0 and all(seen <= allowed for seen, allowed in zip(seen_s, allowed_s, strict=True)),
        measured="mean {:.1f}, p99 {:.1f}, max {:.1f} ms".format(*(1e3 * seen for seen in seen_s)),
        limit="{:.1f}, {:.1f}, {:.1f} ms".format(*(1e3 * allowed for allowed in allowed_s)),
    )
