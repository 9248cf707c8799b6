"""When each request is sent: an absolute plan, drawn before anything is measured.

Covered: Poisson arrivals from one seed stream per request id, so that two arms with equal seeds plan equal times and
adding requests never moves earlier ones. Not covered: traces, ramps, gamma arrivals.
"""

from __future__ import annotations

import itertools

import numpy as np


def poisson_times_s(rate_per_s: float, requests: int, seed: int) -> tuple[float, ...]:
    """Planned send times of `requests` Poisson arrivals, in seconds after the window's start."""
    gaps = (_stream(seed, number).exponential(1.0 / rate_per_s) for number in range(requests))
    return tuple(itertools.accumulate(float(gap) for gap in gaps))


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
