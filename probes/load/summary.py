"""Statistics of one figure over the requests of a window.

A percentile below its floor is withheld: with fewer samples a run that meets the limit by luck cannot be told from one
that meets it (99 % confidence, the MLPerf rule). Failed requests count as +inf in percentiles, never in means.
Intervals describe the spread between requests of *this* window; they are not run-to-run noise.
Covered: mean, max, nearest-rank percentiles, bootstrap and Wilson intervals. Not covered: comparing two windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
FLOORS: Mapping[int, int] = {50: 11, 75: 24, 90: 64, 95: 130, 99: 662}
"""Samples needed before a percentile may be given."""
RESAMPLES = 1000
BLOCK_VALUES = 1_000_000
CONFIDENCE = 0.95
WILSON_Z = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its within-window interval, where one can be had."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One figure over `n` requests; `failed` further requests gave none. `withheld`: percentile → why not given.

    `percentiles` count failures as infinitely slow; `answered` leave them out and exist only where there were some.
    """

    n: int
    failed: int
    mean: Estimate
    max: float
    percentiles: Mapping[int, Estimate]
    withheld: Mapping[int, str]
    answered: Mapping[int, Estimate] = field(default_factory=dict)


def summarise(values: Sequence[float], *, failed: int = 0, intervals: bool = True) -> Summary | None:
    """Summary of the values; None when there are none. `intervals`: values are independent enough to resample."""
    if not values:
        return None
    samples = np.sort(np.asarray([*values, *([math.inf] * failed)], dtype=float))
    finite = np.sort(np.asarray(values, dtype=float))
    percentiles: dict[int, Estimate] = {}
    withheld: dict[int, str] = {}
    for percent, floor in FLOORS.items():
        if len(samples) < floor:
            withheld[percent] = f"p{percent} needs {floor} samples, {len(samples)} were taken"
            continue
        estimate = _percentile(samples, percent, intervals)
        if math.isinf(estimate.value):
            withheld[percent] = f"p{percent} lies among the {failed} failed requests"
        percentiles[percent] = estimate
    return Summary(
        n=len(finite),
        failed=failed,
        mean=bootstrap_mean(finite) if intervals else Estimate(value=float(finite.mean())),
        max=float(finite.max()),
        percentiles=percentiles,
        withheld=withheld,
        answered={
            percent: _percentile(finite, percent, intervals)
            for percent, floor in FLOORS.items()
            if failed and len(finite) >= floor
        },
    )


def nearest_rank(ordered: Sequence[float] | FloatArray, percent: float) -> float:
    """The smallest sample that at least `percent` % of all samples do not exceed."""
    return float(ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)])


def bootstrap_mean(values: Sequence[float] | FloatArray) -> Estimate:
    """Mean with a percentile-bootstrap interval over requests; no interval below 3 values."""
    data = np.asarray(values, dtype=float)
    if len(data) < 3:
        return Estimate(value=float(data.mean()))
    means = np.concatenate([block.mean(axis=1) for block in _resamples(data)])
    return _with_interval(float(data.mean()), means)


def wilson(successes: int, n: int) -> Estimate:
    """A share with its Wilson score interval (95 %)."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"no share of {successes} in {n}")
    share, z2 = successes / n, WILSON_Z**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = WILSON_Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return Estimate(value=share, low=max(0.0, centre - half), high=min(1.0, centre + half))


def _percentile(ordered: FloatArray, percent: int, interval: bool) -> Estimate:
    value = nearest_rank(ordered, percent)
    if not interval:
        return Estimate(value=value)
    rank = max(0, math.ceil(len(ordered) * percent / 100) - 1)
    ranks = np.concatenate([np.partition(block, rank, axis=1)[:, rank] for block in _resamples(ordered)])
    return _with_interval(value, ranks)


def _resamples(data: FloatArray) -> Iterator[FloatArray]:
    """Resamples as rows, in blocks that bound the memory."""
    random = np.random.default_rng(0)  # a fixed seed: the same records always give the same interval
    rows = max(1, BLOCK_VALUES // len(data))
    for start in range(0, RESAMPLES, rows):
        yield data[random.integers(0, len(data), (min(rows, RESAMPLES - start), len(data)))]


def _with_interval(value: float, replicates: FloatArray) -> Estimate:
    ordered = np.sort(replicates)
    tail = 100 * (1 - CONFIDENCE) / 2
    return Estimate(value=value, low=nearest_rank(ordered, tail), high=nearest_rank(ordered, 100 - tail))
