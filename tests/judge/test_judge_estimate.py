"""Estimates: small cases by hand, agreement with the exact test, and the properties that decisions rest on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from infra_agent.judge.estimate import attainable_level, difference, estimate, estimate_rows, walsh_averages

LOGS = st.lists(st.integers(-400, 400).map(lambda k: k / 1000), min_size=3, max_size=16)
ALPHAS = st.sampled_from([0.005, 0.01, 0.02, 0.05, 0.2])


def test_six_gains_by_hand():
    found = estimate([0.06, 0.01, 0.05, 0.02, 0.04, 0.03], alpha=2 / 64)
    assert found.ratio == pytest.approx(math.exp(0.035))
    assert (found.low, found.high) == (pytest.approx(math.exp(0.01)), pytest.approx(math.exp(0.06)))
    assert found.p == 2 / 64
    assert (found.n, found.confidence) == (6, 1 - 2 / 64)
    assert "Wilcoxon" in found.method


def test_between_two_levels_of_the_test_the_ends_lie_between_theirs():
    logs = [0.06, 0.01, 0.05, 0.02, 0.04, 0.03]
    # The outermost averages are 0.01 and 0.015 (levels 2/64 and 4/64): 5 % lies at 0.6 of the way.
    assert math.log(estimate(logs).low) == pytest.approx(0.01 + 0.6 * 0.005)
    assert math.log(estimate(logs).high) == pytest.approx(0.06 - 0.6 * 0.005)


def test_three_gains_by_hand():
    found = estimate([0.1, 0.2, 0.3])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)
    assert math.log(found.ratio) == pytest.approx(0.2)
    assert math.log(found.low) == pytest.approx(0.2 - half)
    assert math.log(found.high) == pytest.approx(0.2 + half)
    assert found.p == pytest.approx(0.07417990022744853)
    assert "Student" in found.method


def test_three_equal_values_are_luck_not_certainty():
    found = estimate([0.01, 0.01, 0.01])
    assert math.log(found.high) - math.log(found.low) == pytest.approx(2 * 4.302652729911275 * 0.02 / math.sqrt(3))
    assert found.low < 1 < found.high


def test_six_equal_values_at_a_level_the_ranks_cannot_reach_still_have_a_width():
    found = estimate([0.5] * 6, alpha=0.006)
    assert found.low < math.exp(0.5) < found.high


@pytest.mark.parametrize(
    ("n", "critical"),
    [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (11, 10), (12, 13), (13, 17), (14, 21), (15, 25), (16, 29)],
)
def test_the_interval_uses_the_tabled_wilcoxon_critical_values(n, critical):
    logs = np.random.default_rng(n).normal(0, 0.02, n)
    averages = walsh_averages(logs[None, :])[0]
    found = estimate(logs.tolist(), attainable_level(n, 0.05))
    assert math.log(found.low) == pytest.approx(averages[critical])
    assert math.log(found.high) == pytest.approx(averages[-1 - critical])


def test_p_is_the_exact_signed_rank_p_where_there_are_no_ties():
    rng = np.random.default_rng(4)
    for n in range(6, 17):
        logs = rng.normal(0.01, 0.02, n)
        assert estimate(logs.tolist()).p == pytest.approx(stats.wilcoxon(logs, method="exact").pvalue)


def test_blocks_without_any_difference_show_none():
    found = estimate([0.0] * 9)
    assert (found.ratio, found.low, found.high, found.p) == (1.0, 1.0, 1.0, 1.0)


def test_one_stalled_block_hardly_moves_the_estimate():
    calm = [0.03, 0.031, 0.028, 0.033, 0.029, 0.03, 0.032, 0.027, 0.03]
    stalled = [*calm[:-1], -0.45]
    assert abs(estimate(stalled).ratio - estimate(calm).ratio) < 0.004


@given(LOGS, ALPHAS)
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_p_and_interval_say_the_same(logs, alpha):
    reached = attainable_level(len(logs), alpha) if len(logs) >= 6 else 0.0
    alpha = reached or alpha
    found = estimate(logs, alpha)
    assert found.low <= found.ratio <= found.high
    assert (found.p <= alpha) == (not found.low <= 1 <= found.high)


@given(LOGS, ALPHAS)
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
def test_swapping_the_arms_mirrors_the_estimate(logs, alpha):
    found, mirrored = estimate(logs, alpha), estimate([-x for x in logs], alpha)
    assert mirrored.ratio == pytest.approx(1 / found.ratio)
    assert (mirrored.low, mirrored.high) == (pytest.approx(1 / found.high), pytest.approx(1 / found.low))
    assert mirrored.p == pytest.approx(found.p)


@given(LOGS, st.randoms(use_true_random=False))
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
def test_the_order_of_blocks_is_irrelevant(logs, random):
    shuffled = logs.copy()
    random.shuffle(shuffled)
    one, other = estimate(logs), estimate(shuffled)
    assert (one.ratio, one.low, one.high, one.p) == pytest.approx((other.ratio, other.low, other.high, other.p))


def test_a_smaller_alpha_never_narrows_the_interval():
    logs = np.random.default_rng(1).normal(0.02, 0.02, 16).tolist()
    widths = [estimate(logs, alpha).high - estimate(logs, alpha).low for alpha in (0.2, 0.05, 0.02, 0.005)]
    assert widths == sorted(widths)


def test_many_rows_give_what_each_row_gives():
    logs = np.random.default_rng(2).normal(0.02, 0.05, (40, 9))
    rows = estimate_rows(logs, 0.02)
    for number, row in enumerate(logs):
        one = estimate(row.tolist(), 0.02)
        together = np.exp([rows.centre[number], rows.low[number], rows.high[number]])
        assert (one.ratio, one.low, one.high) == pytest.approx(tuple(together))


@pytest.mark.parametrize("logs", [[], [0.1], [0.1, 0.2], [0.1, 0.2, math.nan], [0.1, 0.2, math.inf], [[0.1, 0.2, 0.3]]])
def test_too_few_or_broken_values_give_no_interval(logs):
    with pytest.raises(ValueError):
        estimate(logs)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_an_alpha_that_is_no_probability_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha"):
        estimate([0.1, 0.2, 0.3], alpha)


def test_an_alpha_that_the_exact_test_just_reaches_is_used_up_to_it():
    logs = np.random.default_rng(3).normal(0, 0.02, 9)
    found = estimate(logs.tolist(), alpha=6 / 512)
    assert math.log(found.low) == pytest.approx(walsh_averages(logs[None, :])[0][2])
    assert "Wilcoxon" in estimate(logs[:6].tolist(), alpha=2 / 64).method
    assert "Student" in estimate(logs[:6].tolist(), alpha=1.99 / 64).method


def test_a_difference_is_in_the_unit_of_the_metric_and_has_no_floor():
    found = difference([2.0, 3.0, 1.0, 4.0, 2.5, 3.5, 2.2, 2.8, 3.1], alpha=4 / 512)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(2.7, abs=0.2)
    assert found.n == 9
    same = difference([1e9, 1e9, 1e9])
    assert (same.low, same.value, same.high) == (1e9, 1e9, 1e9)
