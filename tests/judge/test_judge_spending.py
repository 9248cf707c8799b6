"""The levels of the looks: derived, kept, and worth what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from infra_agent.judge.estimate import attainable_level
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.spending import ALPHA, RANK_FROM, SPENDING, derive_levels, overall_p, spent


def test_the_levels_in_use_are_the_derived_ones():
    assert derive_levels() == dict(SPENDING)


def test_what_is_spent_grows_to_all_of_it_and_little_is_spent_early():
    shares = [spent(look) / ALPHA for look in LOOKS]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert shares[0] < 0.1


def test_levels_of_the_rank_test_are_ones_that_it_can_reach():
    for look in LOOKS:
        if look >= RANK_FROM:
            assert attainable_level(look, SPENDING[look]) == SPENDING[look]
    assert attainable_level(6, 0.03) == 0.0
    assert attainable_level(6, 2 / 64) == 2 / 64
    assert attainable_level(9, 0.012) == 6 / 512


def test_all_looks_together_cross_as_seldom_as_is_spent():
    # The sum of normal block log-ratios at each look, against the bound of its level: the law that was integrated.
    sums = np.cumsum(np.random.default_rng(3).normal(size=(200_000, LOOKS[-1])), axis=1)
    crossed = np.zeros(len(sums), dtype=bool)
    for look in LOOKS:
        crossed |= np.abs(sums[:, look - 1]) / np.sqrt(look) > stats.norm.isf(SPENDING[look] / 2)
    assert 0.85 * ALPHA < crossed.mean() < ALPHA + 3 * np.sqrt(ALPHA / len(sums))


def test_the_p_of_a_whole_sequence_adds_what_earlier_looks_could_spend():
    assert overall_p(0.001, 3) == 0.001
    assert overall_p(0.001, 9) == pytest.approx(0.001 + SPENDING[3] + SPENDING[6])
    assert overall_p(1.0, 16) == 1.0
