"""The load probe: one window of requests, checked, then told as an Observation.

`run` is the only entry that other parts need. A window with a failed check gives no quantity at all.
Intervals in quantities describe the spread between requests of this window, not run-to-run noise: two windows of the
same server differ by more. Comparing windows is the judge's work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from probes.base import Against, Check, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.events import overlap
from probes.load.arrivals import describe, mean_rate_per_s
from probes.load.body import effective_body, endpoint_url
from probes.load.client import measure
from probes.load.digest import OnRecord
from probes.load.metrics import LoadMetrics, compute
from probes.load.prompts import digest
from probes.load.summary import Estimate, Summary
from probes.load.timeline import segments, weighted_mean
from probes.load.types import Closed, LoadRequest, LoadResult, RequestRecord, Window
from probes.load.validity import Limits, check, not_checked
from probes.load.wire.dial import Connect

NAME = "load"
RATE_UNITS = {
    "output_tok_per_s": "tok/s",
    "total_tok_per_s": "tok/s",
    "steady_output_tok_per_s": "tok/s",
    "requests_per_s": "1/s",
    "goodput_per_s": "1/s",
}


def run(
    request: LoadRequest,
    *,
    where: Where,
    against: Against | None = None,
    limits: Limits | None = None,
    deadline_s: float | None = None,
    on_record: OnRecord | None = None,
    connect: Connect | None = None,
) -> tuple[Observation, LoadResult]:
    """Measure one window and judge its validity.

    Blocks until the window has ended. KeyboardInterrupt closes all
    connections and propagates. Nothing that a server does raises: it is a failed check with its reason. Warm-up and
    window together may take `deadline_s`; past it all connections are closed and TimeoutError is raised.
    `on_record` hears of each measured request as it ends.
    """
    limits = limits or Limits()
    window = measure(
        request, allowed_failures=limits.allowed_failures, on_record=on_record, deadline_s=deadline_s, connect=connect
    )
    metrics = compute(window.records, request)
    result = LoadResult(request=request, window=window, window_s=metrics.window_s, metrics=metrics)
    return observe(result, where=where, against=against, limits=limits), result


def observe(
    result: LoadResult, *, where: Where, against: Against | None = None, limits: Limits | None = None
) -> Observation:
    """The observation of a measured window. Pure: the same result always gives the same observation."""
    window, request, metrics = result.window, result.request, result.metrics
    checks = check(window, request, limits or Limits())
    failed = [item for item in checks if not item.ok]
    return Observation(
        probe=NAME,
        rung=Rung.LOAD,
        verdict=Verdict.INVALID if failed else Verdict.PASS,
        summary=_refusal(failed) if failed else _sentence(metrics),
        where=where,
        against=against or Against(),
        cost=Cost(wall_s=window.wall_s, requests=len(window.records) + len(window.warmup)),
        quantities=() if failed else tuple(_quantities(metrics)),
        checks=checks,
        signals={} if failed else _signals(window.records, request, metrics),
        detail=_detail(window, request, metrics),
    )


def _refusal(failed: list[Check]) -> str:
    return "no figures: " + "; ".join(f"{item.name}: {item.measured} (limit: {item.limit})" for item in failed)


def _sentence(metrics: LoadMetrics) -> str:
    rate = metrics.rates.get("output_tok_per_s")
    parts = [f"{rate:.1f} tok/s"] if rate is not None else []
    for name, label, scale, unit in (("ttft_s", "TTFT", 1, "s"), ("tpot_s", "TPOT", 1e3, "ms")):
        if summary := metrics.summaries.get(name):
            middle = summary.percentiles.get(50)
            which, value = ("p50", middle.value) if middle else ("mean", summary.mean.value)
            parts.append(f"{label} {which} {value * scale:.3g} {unit}")
    return " · ".join([*parts, f"{metrics.successes} requests in {metrics.window_s:.2f} s"])


def _quantities(metrics: LoadMetrics) -> Iterator[Quantity]:
    n = metrics.successes
    for name, rate in metrics.rates.items():
        yield Quantity(name=name, value=rate, unit=RATE_UNITS[name], n=n)
    for name, summary in metrics.summaries.items():
        yield from _latencies(name, summary)
    if metrics.goodput_share is not None:
        yield _quantity("goodput_share", metrics.goodput_share, "1", n + metrics.failures)
    if metrics.mean_output_tokens is not None:
        yield Quantity(name="mean_output_tokens", value=metrics.mean_output_tokens, unit="tok", n=n)
    yield Quantity(name="failures", value=metrics.failures, unit="requests", n=n + metrics.failures)


def _latencies(name: str, summary: Summary) -> Iterator[Quantity]:
    """The mean under the plain name; percentiles and maximum carry theirs."""
    stem = name.removesuffix("_s")
    yield _quantity(name, summary.mean, "s", summary.n)
    for percent, estimate in summary.percentiles.items():
        if percent not in summary.withheld:
            yield _quantity(f"{stem}_p{percent}_s", estimate, "s", summary.n + summary.failed)
    for percent, estimate in summary.answered.items():
        yield _quantity(f"{stem}_p{percent}_answered_s", estimate, "s", summary.n)
    yield Quantity(name=f"{stem}_max_s", value=summary.max, unit="s", n=summary.n)


def _quantity(name: str, estimate: Estimate, unit: str, n: int) -> Quantity:
    high = estimate.high if estimate.high != float("inf") else None
    return Quantity(name=name, value=estimate.value, unit=unit, low=estimate.low, high=high, n=n)


def _signals(
    records: tuple[RequestRecord, ...], request: LoadRequest, metrics: LoadMetrics
) -> dict[str, float | str | bool]:
    parts = segments(records)
    found: dict[str, float | str | bool] = {
        "in_flight_mean": weighted_mean(parts, lambda part: part.in_flight) or 0.0,
        "in_flight_max": max(part.in_flight for part in parts),
    }
    rate = mean_rate_per_s(request.arrivals)
    if isinstance(request.arrivals, Closed):
        found["concurrency"] = request.arrivals.concurrency
    elif rate is not None:
        found["rate_per_s"] = rate
    if metrics.mean_output_tokens is not None:
        found["tokens_per_request"] = metrics.mean_output_tokens
    if metrics.tokens_per_chunk is not None:
        found["tokens_per_chunk"] = metrics.tokens_per_chunk
    seen = overlap.measure(records)
    if not isinstance(seen, str):
        kept = overlap.signals(seen)
        found |= {name: kept[name] for name in ("decoding_mean", "decoding_max", "queue_share")}
    return found


def _detail(window: Window, request: LoadRequest, metrics: LoadMetrics) -> dict[str, Json]:
    errors = Counter(record.error for record in window.records if record.error)
    below_floor = {
        f"{name} percentiles": "; ".join(summary.withheld.values())
        for name, summary in metrics.summaries.items()
        if summary.withheld
    }
    return {
        "url": endpoint_url(request),
        "body": effective_body(request),
        "seed": request.seed,
        "requests": request.requests,
        "warmup_requests": request.warmup_requests,
        "workload_sha256": digest(request.prompts, request.max_tokens, request.requests, request.endpoint),
        "window_s": metrics.window_s,
        "client_lag_s": {"mean": window.lag.mean_s, "p99": window.lag.p99_s, "max": window.lag.max_s},
        "errors": dict(errors.most_common(5)),
        "withheld": {**metrics.withheld, **below_floor},
        "not_checked": dict(not_checked(window, request)),
        "connections_opened_in_window": window.opened,
        "client_cpu_s": window.cpu_s,
        "counters": dict(window.counters),
        "arrivals": describe(request.arrivals),
    }
