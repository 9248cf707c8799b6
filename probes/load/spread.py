"""How arrivals are spread in time: whether requests came as they were meant to come.

A tool whose processes share one seed sends each arrival several times over; one that sleeps between sends falls behind;
one that rounds to seconds sends bursts. All keep the mean rate, and all give the server another load than asked for.
Covered: index of dispersion and lag-1 correlation, of planned and of real send times, for any rate over time.
Not covered: fewer than 50 arrivals, which can look like anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from probes.load.arrivals import Constant, Gamma, Open, Poisson, Ramp
from probes.load.schedule import expected_arrivals

FEWEST = 50
FEWEST_BINS, MOST_BINS = 10, 200
SHORTEST_BIN_S = 0.05
"""Delays of single milliseconds are the business of another check."""
PER_BIN = 5
TAIL = 5e-6
LAG_SIGMAS = 5.0
CONSTANT_MOST = 0.25
TRACE_SLACK = 0.25

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """`dispersion`: variance over mean of counts in equal bins; 1 for Poisson, 0 for even spacing. `lag_one`: how far
    neighbouring gaps depend on each other.
    """

    dispersion: float
    lag_one: float
    bins: int


def spread_of(times_s: Sequence[float], arrivals: Open) -> Spread | None:
    """Spread of these moments in the plan's own time, in which its rate is constant; None for too few."""
    if len(times_s) < FEWEST:
        return None
    own = np.sort(_own_time(np.asarray(times_s, dtype=float), arrivals))
    span = own[-1] - own[0]
    if span <= 0:
        return None
    finest = int((max(times_s) - min(times_s)) / SHORTEST_BIN_S)
    bins = max(FEWEST_BINS, min(MOST_BINS, len(own) // PER_BIN, finest))
    counts = np.histogram(own[1:], bins=bins, range=(own[0], own[-1]))[0]
    gaps = np.diff(own)
    lag = float(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) if gaps.std() > 1e-9 * gaps.mean() else 0.0
    return Spread(dispersion=float(counts.var(ddof=1) / counts.mean()), lag_one=lag, bins=bins)


def dispersion_limits(arrivals: Open, found: Spread) -> tuple[float, float] | None:
    """What the index of dispersion may be by chance (1 in 100,000 windows lies outside); None where nothing says."""
    degrees = found.bins - 1
    low, high = (float(stats.chi2.ppf(tail, degrees)) / degrees for tail in (TAIL, 1 - TAIL))
    match arrivals:
        case Constant():
            return 0.0, CONSTANT_MOST
        case Poisson() | Ramp():
            return low, high
        case Gamma(_, shape):
            # Over long bins the index tends to 1 / shape; in short ones it stays nearer to 1.
            return min(1.0, 1.0 / shape) * low, max(1.0, 1.0 / shape) * high
        case _:
            return None


def lag_limit(arrivals: Open, count: int) -> float | None:
    """How far from 0 the lag-1 correlation may be by chance; None where gaps are not independent by plan."""
    return LAG_SIGMAS / math.sqrt(count) if isinstance(arrivals, Poisson | Gamma | Ramp) else None


def _own_time(times_s: Times, arrivals: Open) -> Times:
    if not isinstance(arrivals, Ramp):
        return times_s
    return np.asarray([expected_arrivals(arrivals, float(time)) for time in times_s])
