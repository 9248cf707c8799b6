"""Stock beside best: every metric measured in both, with intervals over fresh launches.

Covered: geometric mean and 95 % t-interval of window values; the ratio paired by block where blocks pair the two,
the judge's own estimate for the goal's metric. Windows of the final relaunch are used alone when there are any:
values seen while searching are biased towards the winner.
Not covered: deciding anything (the judge did that).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy.special import stdtrit

from infra_agent.changes.change import STOCK
from infra_agent.ledger import kinds as k
from infra_agent.publish.report.facts import (
    Facts,
    finite,
    ids,
    is_goal_metric,
    label,
    name_order,
    source,
)
from infra_agent.publish.report.rows import BeforeAfter, Configuration, Figure, LaunchRow, MetricRow, RatioRow

Windows = Literal["final", "search"]
_PURPOSES = frozenset({"baseline", "block", "final", "measure"})
_CONFIDENCE = 0.95
STARTUP = "startup_s"
_STALL_FREE = "stall_free_"
"""Figures that only windows with a stall have: a mean of those would be of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One window's value of one metric."""

    value: float
    unit: str
    low: float | None
    high: float | None
    source: str


Samples = dict[str, list[Sample]]


def measures(facts: Facts) -> tuple[Configuration, Configuration, list[BeforeAfter]]:
    """Baseline, best, and the table that compares them."""
    best = facts.state.best
    windows = _windows(facts, best)
    stock_samples = _samples(facts, STOCK, windows)
    best_samples = stock_samples if best == STOCK else _samples(facts, best, windows)
    baseline = _configuration(facts, STOCK, stock_samples)
    winner = _configuration(facts, best, best_samples)
    if best == STOCK:
        return baseline, winner, []
    shared = sorted(stock_samples.keys() & best_samples.keys(), key=name_order)
    rows = [_row(facts, name, stock_samples[name], best_samples[name], windows) for name in shared]
    rows.sort(key=lambda row: not row.is_goal)
    return baseline, winner, rows


def configuration(facts: Facts, candidate: str) -> Configuration:
    """One configuration with all that was measured of it."""
    return _configuration(facts, candidate, _samples(facts, candidate, "search"))


def _windows(facts: Facts, best: str) -> Windows:
    seen = {
        made.candidate
        for made in facts.state.observations.values()
        if made.purpose == "final" and made.lane != "honesty" and made.observation.get("quantities")
    }
    return "final" if {STOCK, best} <= seen else "search"


def _samples(facts: Facts, candidate: str, windows: Windows) -> Samples:
    result: Samples = {}
    spoilt = _in_bad_blocks(facts)
    for made in facts.state.observations.values():
        wanted = made.purpose == "final" if windows == "final" else made.purpose in _PURPOSES
        if made.candidate != candidate or made.lane == "honesty" or made.id in spoilt or not wanted:
            continue
        for quantity in made.observation.get("quantities", ()):
            if not str(quantity.get("name", "")).startswith(_STALL_FREE):
                _add(result, quantity, made.id)
    if STARTUP not in result:
        for identity, ended in facts.state.launches_ended.items():
            launch = facts.state.launches.get(identity)
            if launch is not None and _counts(launch, candidate, windows) and ended.ready_s:
                started = {"name": STARTUP, "value": ended.ready_s, "unit": "s"}
                _add(result, started, source(facts.seq(ended)))
    return result


def _in_bad_blocks(facts: Facts) -> set[str]:
    """Observations of blocks that were not valid: measured again, so not counted."""
    blocks = [data for _, data in facts.of(k.BlockMeasured) if isinstance(data, k.BlockMeasured) and not data.valid]
    return {identity for block in blocks for identity in (block.base_observation, block.candidate_observation)}


def _counts(launch: k.LaunchStarted, candidate: str, windows: Windows) -> bool:
    return (
        launch.candidate == candidate and launch.lane != "honesty" and (windows == "search" or launch.lane == "final")
    )


def _add(samples: Samples, quantity: dict[str, Any], where: str) -> None:
    value = quantity.get("value")
    if not isinstance(value, int | float) or finite(value) is None:
        return
    sample = Sample(
        value=float(value),
        unit=str(quantity.get("unit", "")),
        low=finite(quantity.get("low")),
        high=finite(quantity.get("high")),
        source=where,
    )
    samples.setdefault(str(quantity.get("name", "")), []).append(sample)


def _configuration(facts: Facts, candidate: str, samples: Samples) -> Configuration:
    metrics = [
        MetricRow(name=name, label=label(name), unit=samples[name][0].unit, figure=_figure(samples[name]))
        for name in sorted(samples, key=name_order)
    ]
    return Configuration(
        candidate=candidate,
        title="stock" if candidate == STOCK else facts.title(candidate),
        settings=facts.settings(candidate),
        launch=_launch(facts, candidate),
        metrics=metrics,
    )


def _launch(facts: Facts, candidate: str) -> LaunchRow | None:
    """The newest launch of a configuration."""
    own = [launch for launch in facts.state.launches.values() if launch.candidate == candidate]
    if not own:
        return None
    last = own[-1]
    return LaunchRow(id=last.id, argv=list(last.argv), env=dict(last.env), event=facts.seq(last))


def _figure(samples: Sequence[Sample]) -> Figure:
    where = ids([sample.source for sample in samples])
    if len(samples) == 1:
        only = samples[0]
        return Figure(value=only.value, low=only.low, high=only.high, n=1, sources=where)
    value, low, high = interval([sample.value for sample in samples])
    return Figure(value=value, low=low, high=high, n=len(samples), sources=where)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % t-interval; geometric when all values are positive. Needs two values or more."""
    positive = all(value > 0 for value in values)
    points = [math.log(value) for value in values] if positive else list(values)
    n = len(points)
    mean = math.fsum(points) / n
    variance = math.fsum((point - mean) ** 2 for point in points) / (n - 1)
    half = float(stdtrit(n - 1, 0.5 + _CONFIDENCE / 2)) * math.sqrt(variance / n)
    ends = (mean, mean - half, mean + half)
    return (math.exp(ends[0]), math.exp(ends[1]), math.exp(ends[2])) if positive else ends


def _row(facts: Facts, name: str, stock: list[Sample], best: list[Sample], windows: Windows) -> BeforeAfter:
    goal = facts.state.started.goal
    is_goal = is_goal_metric(name, goal)
    left, right = _figure(stock), _figure(best)
    change = _judged(facts) if is_goal else None
    change = change or _paired(facts, name) or _unpaired(left, right)
    return BeforeAfter(
        name=name,
        label=label(name),
        unit=stock[0].unit,
        is_goal=is_goal,
        windows=windows,
        stock=left,
        best=right,
        change=change,
        better=_better(change, facts.higher_is_better(name)),
    )


def _better(change: RatioRow | None, higher: bool | None) -> bool | None:
    if change is None or higher is None or change.low is None or change.high is None:
        return None
    if change.low > 1:
        return higher
    return (not higher) if change.high < 1 else None


def _judged(facts: Facts) -> RatioRow | None:
    """The judge's estimate of best against stock: the final one, else the proof of a candidate built on stock."""
    state = facts.state
    data, where = (state.final.estimate, facts.seq(state.final)) if state.final is not None else (None, 0)
    if data is None:
        winner = state.candidates.get(state.best)
        if winner is None or winner.proposed.base != STOCK or winner.verdict is None:
            return None
        data, where = winner.verdict.estimate, facts.seq(winner.verdict)
    if data is None or finite(data.ratio) is None or data.ratio <= 0:
        return None
    low, high, ratio = finite(data.low), finite(data.high), data.ratio
    if facts.higher_is_better(state.started.goal.metric.value) is not True:
        ratio = 1 / ratio
        low, high = (1 / high if high else None), (1 / low if low else None)
    return RatioRow(ratio=ratio, low=low, high=high, n=data.n, method=f"judge: {data.method}", sources=[source(where)])


def _paired(facts: Facts, name: str) -> RatioRow | None:
    """Ratio within each valid block that pairs stock with best."""
    state = facts.state
    blocks = _blocks(facts, "final")
    winner = state.candidates.get(state.best)
    if len(blocks) < 2 and winner is not None and winner.proposed.base == STOCK:
        blocks = _blocks(facts, "prove")
    pairs: list[tuple[float, list[str]]] = []
    for block in blocks:
        base = _value(facts, block.base_observation, name)
        candidate = _value(facts, block.candidate_observation, name)
        if base and candidate and base > 0 and candidate > 0:
            pairs.append((candidate / base, [block.base_observation, block.candidate_observation]))
    if len(pairs) < 2:
        return None
    ratio, low, high = interval([pair[0] for pair in pairs])
    where = ids(*[pair[1] for pair in pairs])
    return RatioRow(
        ratio=ratio, low=low, high=high, n=len(pairs), method="paired by block, t-interval of log ratios", sources=where
    )


def _blocks(facts: Facts, stage: str) -> list[k.BlockMeasured]:
    state = facts.state
    own: Iterable[k.EventData] = (data for _, data in facts.of(k.BlockMeasured))
    blocks = [block for block in own if isinstance(block, k.BlockMeasured)]
    return [b for b in blocks if b.stage == stage and b.valid and b.candidate == state.best and b.base == STOCK]


def _value(facts: Facts, observation: str, name: str) -> float | None:
    made = facts.state.observations.get(observation)
    if made is None:
        return None
    found = next((q for q in made.observation.get("quantities", ()) if q.get("name") == name), None)
    return finite(found.get("value")) if found is not None else None


def _unpaired(stock: Figure, best: Figure) -> RatioRow | None:
    """The plain ratio of two figures, without an interval: nothing pairs them."""
    if stock.value == 0:
        return None
    return RatioRow(
        ratio=best.value / stock.value,
        low=None,
        high=None,
        n=min(stock.n, best.n),
        method="not paired",
        sources=ids(stock.sources, best.sources),
    )
