"""Stalls of a measured window as quantities: how many, how long, and the goal-like figures without them.

The plain figures stay as they are; `stall_free_NAME` stands beside `NAME` where a window stalled. Percentiles above the
median, goodput and whatever is not a figure of the load have no such twin: a goal about the tail is about stalls.
Covered: streamed answers (`probes.load.robust` says what a stall is).
Not covered: deciding which of the two figures is compared (`judge.stalls`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from infra_agent.goal.model import AnyMetric, Metric, Statistic
from probes.base import Observation, Quantity
from probes.load.metrics import LoadMetrics, compute
from probes.load.robust import find_stalls, without_stalls
from probes.load.types import LoadResult

STALLS, STALL_S, PREFIX = "stalls", "stall_s", "stall_free_"
RATES = (Metric.OUTPUT_TOK_PER_S, Metric.TOTAL_TOK_PER_S, Metric.REQUESTS_PER_S)
LATENCIES = (Metric.TTFT_S, Metric.TPOT_S, Metric.ITL_S, Metric.E2E_S)
_MEDIAN = 50


def stall_free_name(metric: AnyMetric, statistic: Statistic) -> str | None:
    """Name of the figure without stalls; None where stalls belong to the figure."""
    if metric in RATES or (metric in LATENCIES and statistic is Statistic.MEAN):
        return f"{PREFIX}{metric.value}"
    if metric in LATENCIES and statistic is Statistic.P50:
        return f"{PREFIX}{metric.value.removesuffix('_s')}_p{_MEDIAN}_s"
    return None


def with_stall_figures(observation: Observation, result: LoadResult) -> Observation:
    """Add what stalls did to a valid window. One that cannot tell (not streamed) gets nothing added."""
    if not observation.quantities:
        return observation
    stalls = find_stalls(result.records)
    if stalls is None:
        return observation
    added = [
        Quantity(name=STALLS, value=float(len(stalls)), unit="1"),
        Quantity(name=STALL_S, value=math.fsum(stall.excess_s for stall in stalls), unit="s"),
    ]
    if stalls:
        added += _figures(compute(without_stalls(result.records, stalls), result.request))
    return replace(observation, quantities=(*observation.quantities, *added))


def _figures(metrics: LoadMetrics) -> Iterator[Quantity]:
    for metric in RATES:
        if metric.value in metrics.rates:
            unit = "1/s" if metric is Metric.REQUESTS_PER_S else "tok/s"
            yield Quantity(name=f"{PREFIX}{metric.value}", value=metrics.rates[metric.value], unit=unit)
    for metric in LATENCIES:
        summary = metrics.summaries.get(metric.value)
        if summary is None:
            continue
        yield Quantity(name=f"{PREFIX}{metric.value}", value=summary.mean.value, unit="s", n=summary.n)
        if _MEDIAN in summary.percentiles and _MEDIAN not in summary.withheld:
            name = f"{PREFIX}{metric.value.removesuffix('_s')}_p{_MEDIAN}_s"
            yield Quantity(name=name, value=summary.percentiles[_MEDIAN].value, unit="s", n=summary.n)
