"""When each request is sent: an absolute plan, drawn before anything is measured.

Covered: constant, Poisson, gamma and ramped arrivals and traces, from one seed stream per request id, so that two
arms with equal seeds plan equal times, adding requests never moves earlier ones, and any number of client processes
share one plan. Not covered: pausing a plan.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from probes.load.arrivals import Constant, Gamma, Open, Poisson, Ramp, Trace


def planned_times_s(arrivals: Open, requests: int, seed: int) -> tuple[float, ...]:
    """Planned send times of `requests` arrivals, in seconds after the window's start, in order."""
    match arrivals:
        case Constant(rate):
            return tuple(number / rate for number in range(requests))
        case Poisson(rate):
            return poisson_times_s(rate, requests, seed)
        case Gamma(rate, shape):
            gaps = (_stream(seed, number).gamma(shape, 1.0 / (rate * shape)) for number in range(requests))
            return tuple(itertools.accumulate(float(gap) for gap in gaps))
        case Ramp():
            return tuple(moment_s(arrivals, expected) for expected in poisson_times_s(1.0, requests, seed))
        case Trace(times):
            if requests > len(times):
                raise ValueError(f"{arrivals.name} has {len(times)} arrivals, {requests} were asked for")
            return times[:requests]


def poisson_times_s(rate_per_s: float, requests: int, seed: int) -> tuple[float, ...]:
    """Planned send times of `requests` Poisson arrivals, in seconds after the window's start."""
    gaps = (_stream(seed, number).exponential(1.0 / rate_per_s) for number in range(requests))
    return tuple(itertools.accumulate(float(gap) for gap in gaps))


def expected_arrivals(ramp: Ramp, time_s: float) -> float:
    """Arrivals that a ramp is expected to have made by `time_s`: the integral of its rate."""
    start, end, over_s = ramp.start_per_s, ramp.end_per_s, ramp.over_s
    within_s = min(time_s, over_s)
    if ramp.shape == "linear":
        count = start * within_s + (end - start) * within_s**2 / (2 * over_s)
    elif start == end:
        count = start * within_s
    else:
        growth = math.log(end / start) / over_s
        count = start * math.expm1(growth * within_s) / growth
    return count + end * max(0.0, time_s - over_s)


def moment_s(ramp: Ramp, arrivals: float) -> float:
    """The inverse of `expected_arrivals`: when the ramp is expected to have made this many."""
    start, end, over_s = ramp.start_per_s, ramp.end_per_s, ramp.over_s
    during = expected_arrivals(ramp, over_s)
    if arrivals >= during:
        return over_s + (arrivals - during) / end
    if start == end:
        return arrivals / start
    if ramp.shape == "linear":
        slope = (end - start) / over_s
        return 2 * arrivals / (start + math.sqrt(start * start + 2 * slope * arrivals))
    growth = math.log(end / start) / over_s
    return math.log1p(arrivals * growth / start) / growth


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
