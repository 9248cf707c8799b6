"""What moved between the first and the last reading: counters as differences, gauges as samples over time.

A gauge of one reading says what one moment was like, so gauges are kept as time-weighted means, maxima and shares of
time; a rate that an engine averages itself is never used. A counter that fell, or a start time that moved, is a
restart: the window is then two servers, and only what is true of both is said.
Covered: labels that come and go, several engines behind one page, restarts, histograms as differences.
Not covered: quantiles finer than an engine's buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probes.events.prometheus import Page, buckets
from probes.events.signals import Signal, Signals
from probes.events.vocabulary import ENGINES, FACTS, Metric, Quality

START_TIME = "process_start_time_seconds"
GAUGES = ("running", "waiting", "kv_used", "graph_used")
Reading = tuple[float, Page]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A window of pages. `restarts`: how often the server began anew in it."""

    signals: tuple[Signal, ...]
    restarts: int
    span_s: float


def measure(engine: str, pages: Sequence[Reading]) -> Moved:
    """The facts of an engine's pages; facts that it does not tell are absent, with the reason."""
    span_s = pages[-1][0] - pages[0][0] if pages else 0.0
    metrics = ENGINES.get(engine, {})
    found = Signals()
    for fact in FACTS:
        metric = metrics.get(fact)
        name = _name(metric, pages) if metric is not None else None
        if metric is None or name is None:
            why = f"{engine} does not tell" if metric is None else f"no {metric.names[0]} on the page"
            found.add(Signal(name=fact, value=None, unit="", quality="absent", source=why))
            continue
        for signal in _facts(fact, metric, name, pages, span_s):
            found.add(signal)
    for signal in _derived(found):
        found.add(signal)
    return Moved(signals=tuple(found), restarts=restarts(engine, pages), span_s=span_s)


def restarts(engine: str, pages: Sequence[Reading]) -> int:
    """How often a counter fell or the start time moved between two readings."""
    counters = [metric for metric in ENGINES.get(engine, {}).values() if metric.kind == "counter"]
    count = 0
    for (_, before), (_, after) in zip(pages, pages[1:], strict=False):
        started = [max(page.named(START_TIME).values(), default=0.0) for page in (before, after)]
        fell = any(_total(after, m) < _total(before, m) for m in counters if _present(after, m) and _present(before, m))
        count += fell or (min(started) > 0 and started[1] > started[0] + 1.0)
    return count


def _facts(fact: str, metric: Metric, name: str, pages: Sequence[Reading], span_s: float) -> list[Signal]:
    if metric.kind == "gauge":
        return _gauge(fact, metric, name, pages)
    if metric.kind == "counter":
        moved = _steps(pages, lambda page: _total(page, metric))
        return _counter(fact, moved, metric.quality, name, span_s)
    return _histogram(fact, name, pages, span_s)


def _gauge(fact: str, metric: Metric, name: str, pages: Sequence[Reading]) -> list[Signal]:
    series = [(at_s, _total(page, metric)) for at_s, page in pages if _present(page, metric)]
    values = [value for _, value in series]
    unit = "1" if fact in ("kv_used", "graph_used") else "requests"
    quality: Quality = metric.quality
    source = f"{name}, {len(values)} readings"

    def signal(suffix: str, value: float, its_unit: str = unit) -> Signal:
        return Signal(name=f"{fact}_{suffix}", value=round(value, 6), unit=its_unit, quality=quality, source=source)

    above = [value for value in values if value > 0]
    return [
        signal("mean", _mean_over_time(series)),
        signal("max", max(values)),
        signal("min_busy", min(above, default=0.0)),
        signal("share", _mean_over_time([(at_s, float(value > 0)) for at_s, value in series]), "1"),
        signal("readings", len(values), "1"),
    ]


def _counter(fact: str, moved: float, quality: Quality, name: str, span_s: float) -> list[Signal]:
    total = Signal(name=fact, value=moved, unit="1", quality=quality, source=f"{name}, difference over the window")
    if span_s <= 0:
        return [total]
    rate = Signal(name=f"{fact}_per_s", value=moved / span_s, unit="1/s", quality="derived", source=total.source)
    return [total, rate]


def _histogram(fact: str, name: str, pages: Sequence[Reading], span_s: float) -> list[Signal]:
    count = _steps(pages, lambda page: _sum(page, f"{name}_count"))
    total = _steps(pages, lambda page: _sum(page, f"{name}_sum"))
    source = f"{name}, difference over the window"
    unit = "s" if fact.endswith("_s") else "tokens"
    found = [Signal(name=f"{fact}_count", value=count, unit="1", quality="exact", source=source)]
    if count <= 0:
        return found
    found += [
        Signal(name=f"{fact}_mean", value=total / count, unit=unit, quality="derived", source=source),
        Signal(name=f"{fact}_total", value=total, unit=unit, quality="exact", source=source),
    ]
    p90 = _quantile(name, pages, 0.9)
    if p90 is not None:
        found.append(
            Signal(
                name=f"{fact}_p90_bucket", value=p90, unit=unit, quality="approximate", source=f"{source}, by bucket"
            )
        )
    return found


def _quantile(name: str, pages: Sequence[Reading], level: float) -> float | None:
    """Upper bound of the bucket that holds the quantile."""
    first, last = dict(buckets(pages[0][1], name)), dict(buckets(pages[-1][1], name))
    moved = [(bound, last[bound] - first.get(bound, 0.0)) for bound in sorted(last)]
    if not moved or moved[-1][1] <= 0 or any(step < 0 for _, step in moved):
        return None
    bound = next(bound for bound, held in moved if held >= level * moved[-1][1])
    return bound if bound != float("inf") else None


def _derived(found: Signals) -> list[Signal]:
    """Shares and means that follow from two facts."""
    made: list[Signal] = []

    def add(name: str, value: float, unit: str, quality: Quality, source: str) -> None:
        made.append(Signal(name=name, value=value, unit=unit, quality=quality, source=source))

    queries, hits = found.number("prefix_queries"), found.number("prefix_hits")
    if queries and hits is not None:
        add("prefix_hit_rate", min(1.0, hits / queries), "1", "derived", "prefix hits over queries, both differences")
    prefill, decode = found.number("prefill_s_total"), found.number("decode_s_total")
    if prefill is not None and decode is not None and prefill + decode > 0:
        add("prefill_share", prefill / (prefill + decode), "1", "derived", "prefill over prefill and decode time")
    busy, spoken = found.number("prefill_busy_s"), found.number("decode_busy_s")
    if busy is not None and spoken is not None and busy + spoken > 0:
        add("prefill_share", busy / (busy + spoken), "1", "approximate", "engine seconds of prompts over all of them")
    steps, prompt, output = (found.number(name) for name in ("steps", "prompt_tokens", "generation_tokens"))
    if steps and prompt is not None and output is not None:
        add("iteration_tokens_mean", (prompt + output) / steps, "tokens", "derived", "tokens over engine steps")
    return made


def _steps(pages: Sequence[Reading], value: Callable[[Page], float]) -> float:
    """The sum of all rises; after a fall, what the new server counted from nought."""
    values = [value(page) for _, page in pages]
    return sum(after - before if after >= before else after for before, after in zip(values, values[1:], strict=False))


def _mean_over_time(points: Sequence[tuple[float, float]]) -> float:
    spans = [
        (after[0] - before[0], (before[1] + after[1]) / 2) for before, after in zip(points, points[1:], strict=False)
    ]
    length = sum(span for span, _ in spans)
    return sum(span * value for span, value in spans) / length if length > 0 else points[0][1]


def _name(metric: Metric, pages: Sequence[Reading]) -> str | None:
    """The first of its names that any page has."""
    for name in metric.names:
        sought = f"{name}_count" if metric.kind == "histogram" else name
        if any(page.named(sought) for _, page in pages):
            return name
    return None


def _present(page: Page, metric: Metric) -> bool:
    return any(page.named(name) for name in metric.names)


def _total(page: Page, metric: Metric) -> float:
    for name in metric.names:
        values = list(page.named(name).values())
        if values:
            return max(values) if metric.across == "max" else sum(values)
    return 0.0


def _sum(page: Page, name: str) -> float:
    return sum(value for series, value in page.values.items() if series.name == name)
