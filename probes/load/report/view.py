"""What the page shows of each window: figures, checks, charts; and of a sweep, the curve.

Covered: windows that are invalid (their checks, no figures), sweeps over rates and user counts.
Not covered: how it looks (templates).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from probes.base import Observation, Verdict
from probes.load.arrivals import Closed, describe, mean_rate_per_s
from probes.load.card import LATENCIES, SHOWN, STATISTICS, latency_name
from probes.load.metrics import tpot_s
from probes.load.report.svg import Series, chart, distribution, thin
from probes.load.session import Told
from probes.load.timeline import segments
from probes.load.types import RequestRecord

BINS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowView:
    """One window on the page. Cells are text; an empty one says that the figure is withheld."""

    title: str
    valid: bool
    summary: str
    facts: Sequence[tuple[str, str]]
    rates: Sequence[tuple[str, str, str]]
    statistics: Sequence[str]
    latencies: Sequence[tuple[str, Sequence[str]]]
    checks: Sequence[tuple[bool, str, str, str]]
    withheld: Sequence[tuple[str, str]]
    not_checked: Sequence[tuple[str, str]]
    charts: Sequence[tuple[str, Markup]]


def window_view(told: Told) -> WindowView:
    """The view of one window."""
    observation, request = told.observation, told.result.request
    valid = observation.verdict is Verdict.PASS
    present = [s for s in STATISTICS if any(observation.quantity(latency_name(stem, s)) for stem, _ in LATENCIES)]
    return WindowView(
        title=describe(request.arrivals),
        valid=valid,
        summary=observation.summary,
        facts=[
            ("Server", str(observation.detail["url"])),
            ("Model", request.model),
            ("Requests", f"{len(told.result.records)} measured, {len(told.result.window.warmup)} for warm-up"),
            ("Seed", str(request.seed)),
            ("Work", f"sha256 {observation.detail['workload_sha256'][:16]}"),
            ("Client", f"{request.processes} process, {told.result.window.cpu_s:.2f} s of CPU"),
        ],
        rates=list(_rates(observation)),
        statistics=present,
        latencies=list(_latencies(observation, present)),
        checks=[(check.ok, check.name, check.measured, check.limit) for check in observation.checks],
        withheld=sorted(observation.detail["withheld"].items()),
        not_checked=sorted(observation.detail["not_checked"].items()),
        charts=_charts(told.result.records) if valid else [],
    )


def curve(told: Sequence[Told]) -> list[tuple[str, Markup]]:
    """Latency and throughput against the load of a sweep; nothing for a single window."""
    placed = [(place, each.observation) for each in told if (place := _place(each)) is not None]
    valid = [(place, seen) for place, seen in placed if seen.verdict is Verdict.PASS]
    if len(valid) < 2:
        return []
    label = "users" if isinstance(told[0].result.request.arrivals, Closed) else "requests asked for per second"
    found = []
    for title, unit, names in (
        ("Time to first token against load", "ms", (("ttft_s", "mean"), ("ttft_p50_s", "p50"), ("ttft_p95_s", "p95"))),
        ("Time per output token against load", "ms", (("tpot_s", "mean"), ("tpot_p95_s", "p95"))),
        ("End to end against load", "ms", (("e2e_s", "mean"), ("e2e_p95_s", "p95"))),
        ("Throughput against load", "tok/s", (("output_tok_per_s", "output tokens/s"),)),
    ):
        series = [
            Series(label=text, points=_points(valid, name, unit), style=style, dots=True)
            for (name, text), style in zip(names, ("one", "two", "three"), strict=False)
        ]
        described = "; ".join(f"{x:g}: {y:.4g} {unit}" for x, y in series[0].points)
        drawn = chart(title, label, unit, series, described)
        if drawn:
            found.append((title, drawn))
    return found


def sweep_rows(told: Sequence[Told]) -> list[tuple[str, ...]]:
    """The same as a table: load, verdict, tokens and requests per second, TTFT, TPOT, end to end."""
    rows = []
    for each in told:
        seen = each.observation
        cells = [
            _cell(seen, name, scale)
            for name, scale in (
                ("output_tok_per_s", 1), ("requests_per_s", 1), ("ttft_s", 1e3), ("ttft_p95_s", 1e3), ("tpot_s", 1e3),
                ("e2e_s", 1e3), ("goodput_share", 100),
            )
        ]  # fmt: skip
        rows.append((describe(each.result.request.arrivals), str(seen.verdict), *cells))
    return rows


def _points(valid: Sequence[tuple[float, Observation]], name: str, unit: str) -> list[tuple[float, float]]:
    scale = 1e3 if unit == "ms" else 1.0
    return [(place, quantity.value * scale) for place, seen in valid if (quantity := seen.quantity(name)) is not None]


def _place(told: Told) -> float | None:
    arrivals = told.result.request.arrivals
    return float(arrivals.concurrency) if isinstance(arrivals, Closed) else mean_rate_per_s(arrivals)


def _rates(observation: Observation) -> Iterator[tuple[str, str, str]]:
    for name, label in SHOWN:
        if quantity := observation.quantity(name):
            interval = f"{quantity.low:.4g} to {quantity.high:.4g}" if quantity.low and quantity.high else ""
            yield label, f"{quantity.value:.4g}", interval


def _latencies(observation: Observation, present: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    for stem, label in LATENCIES:
        cells = [_cell(observation, latency_name(stem, statistic), 1e3) for statistic in present]
        if any(cells):
            yield label, cells


def _cell(observation: Observation, name: str, scale: float) -> str:
    quantity = observation.quantity(name)
    return "" if quantity is None else f"{quantity.value * scale:.4g}"


def _charts(records: Sequence[RequestRecord]) -> list[tuple[str, Markup]]:
    good = [record for record in records if record.ok]
    ttft = [r.first_token_s - r.sent_s for r in good if r.first_token_s is not None]
    e2e = [r.last_token_s - r.sent_s for r in good if r.last_token_s is not None]
    tpot = [value for r in good if (value := tpot_s(r)) is not None]
    waits = [
        Series(label="TTFT", points=distribution(ttft)),
        Series(label="E2E", points=distribution(e2e), style="two"),
    ]
    drawn = [
        ("Latency distribution", chart("Latency distribution", "ms", "% of answers", waits, _spread(ttft, e2e))),
        (
            "Time per output token",
            chart("Time per output token", "ms", "% of answers", [Series(label="TPOT", points=distribution(tpot))],
                  _spread(tpot)),
        ),
        ("In flight and decoding over time", _course(records)),
        ("Chunks over time", _chunks(good)),
    ]  # fmt: skip
    return [(title, markup) for title, markup in drawn if markup]


def _spread(*groups: Sequence[float]) -> str:
    ordered = [sorted(values) for values in groups if values]
    return "; ".join(f"{1e3 * v[0]:.4g} to {1e3 * v[-1]:.4g} ms, middle {1e3 * v[len(v) // 2]:.4g} ms" for v in ordered)


def _course(records: Sequence[RequestRecord]) -> Markup:
    parts = segments(records)
    if not parts:
        return Markup("")
    start_s = parts[0].start_s
    flight = [p for s in parts for p in ((s.start_s - start_s, s.in_flight), (s.end_s - start_s, s.in_flight))]
    decoding = [p for s in parts for p in ((s.start_s - start_s, s.decoding), (s.end_s - start_s, s.decoding))]
    series = [
        Series(label="in flight", points=thin([(x, float(y)) for x, y in flight])),
        Series(label="decoding", points=thin([(x, float(y)) for x, y in decoding]), style="two"),
    ]
    peak = max(part.in_flight for part in parts)
    return chart("In flight and decoding over time", "seconds", "requests", series, f"peak {peak} in flight")


def _chunks(good: Sequence[RequestRecord]) -> Markup:
    times = sorted(time for record in good for time in record.chunk_times_s)
    if len(times) < 2 or times[-1] <= times[0]:
        return Markup("")
    width_s = (times[-1] - times[0]) / BINS
    counts = [0] * BINS
    for time in times:
        counts[min(BINS - 1, int((time - times[0]) / width_s))] += 1
    points = [((index + 0.5) * width_s, count / width_s) for index, count in enumerate(counts)]
    described = f"{len(times)} chunks in {times[-1] - times[0]:.3g} s; chunks, not tokens"
    return chart("Chunks over time", "seconds", "chunks/s", [Series(label="chunks/s", points=points)], described)
