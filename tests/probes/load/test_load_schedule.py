"""Arrivals are really Poisson, and the same in every arm."""

from __future__ import annotations

import numpy as np
from scipy import stats

from probes.load.schedule import poisson_times_s

RATE_PER_S = 20.0
TIMES_S = np.asarray(poisson_times_s(RATE_PER_S, 4000, seed=5))


def test_equal_seeds_plan_equal_times_and_other_seeds_do_not() -> None:
    assert poisson_times_s(3.0, 50, 7) == poisson_times_s(3.0, 50, 7)
    assert not set(poisson_times_s(3.0, 50, 7)) & set(poisson_times_s(3.0, 50, 8))


def test_more_requests_never_move_the_earlier_ones() -> None:
    assert poisson_times_s(3.0, 80, 7)[:50] == poisson_times_s(3.0, 50, 7)


def test_a_higher_rate_is_the_same_pattern_played_faster() -> None:
    slow, fast = poisson_times_s(1.0, 50, 7), poisson_times_s(4.0, 50, 7)
    assert np.allclose(np.asarray(slow) / 4, fast)


def test_the_mean_rate_is_the_asked_one_within_chance() -> None:
    # The total of n exponential gaps is Gamma(n): two-sided at 1e-4.
    low, high = stats.gamma.ppf([5e-5, 1 - 5e-5], len(TIMES_S)) / RATE_PER_S
    assert low < TIMES_S[-1] < high


def test_counts_per_second_are_as_spread_as_a_poisson_process() -> None:
    counts = np.bincount(TIMES_S.astype(int))[:-1]
    dispersion = counts.var(ddof=1) / counts.mean()
    degrees = len(counts) - 1
    low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], degrees) / degrees
    assert low < dispersion < high


def test_gaps_do_not_depend_on_each_other_and_are_exponential() -> None:
    gaps = np.diff(TIMES_S, prepend=0.0)
    lag_one = np.corrcoef(gaps[:-1], gaps[1:])[0, 1]
    assert abs(lag_one) < 4 / np.sqrt(len(gaps))
    assert stats.kstest(gaps * RATE_PER_S, "expon").pvalue > 1e-4


def test_no_arrival_sits_on_a_whole_second() -> None:
    assert np.abs(TIMES_S - np.round(TIMES_S)).min() > 0
