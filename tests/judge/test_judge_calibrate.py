"""The noise floor: pooled and robust deviation, the minimum detectable effect, stalls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from infra_agent.judge.calibrate import block_sd, block_sd_from_launches, mde_ratio, noise_sd, stall_rate, wilson


def test_the_pooled_deviation_by_hand():
    assert noise_sd([[0.0, 0.02], [0.10, 0.14]]) == pytest.approx(math.sqrt(0.001 / 2))
    assert noise_sd([[0.0, 0.02], [5.0]]) == pytest.approx(math.sqrt(0.0002))


def test_the_robust_deviation_by_hand():
    assert noise_sd([[0.0, 0.02], [0.10, 0.14]], robust=True) == pytest.approx(0.03 / (0.67448975 * math.sqrt(2)))


def test_differences_between_configurations_are_not_noise():
    rng = np.random.default_rng(1)
    groups = [(level + rng.normal(0, 0.02, 3)).tolist() for level in np.linspace(0, 3, 400)]
    assert noise_sd(groups) == pytest.approx(0.02, rel=0.1)
    assert noise_sd(groups, robust=True) == pytest.approx(0.02, rel=0.1)


def test_stalls_move_the_plain_deviation_but_hardly_the_robust_one():
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.02, (300, 4)) + np.where(rng.random((300, 4)) < 0.08, math.log(0.64), 0)
    assert noise_sd(values.tolist()) > 0.1
    assert 0.02 < noise_sd(values.tolist(), robust=True) < 0.03


def test_a_block_has_the_noise_of_two_launches():
    rng = np.random.default_rng(3)
    base, candidate = rng.normal(0, 0.02, (2, 4000))
    assert block_sd((candidate - base).tolist()) == pytest.approx(block_sd_from_launches(0.02), rel=0.05)


@pytest.mark.parametrize("groups", [[], [[1.0]], [[1.0], [2.0]], [[1.0, math.nan]], [[1.0, 1.0], [-math.inf]]])
def test_noise_without_two_finite_launches_is_no_number(groups):
    with pytest.raises(ValueError):
        noise_sd(groups)


def test_the_minimum_detectable_ratio_by_hand():
    expected = math.exp((2.2009851601 + 0.8755299114) * 0.0238 / math.sqrt(12))
    assert mde_ratio(0.0238, 12) == pytest.approx(expected)
    assert mde_ratio(0.0, 12) == 1.0
    assert mde_ratio(0.02, 6) > mde_ratio(0.02, 12) > mde_ratio(0.02, 16) > 1


def test_the_minimum_detectable_effect_is_detected_four_times_in_five():
    sd, blocks = 0.03, 12
    effect = math.log(mde_ratio(sd, blocks))
    logs = np.random.default_rng(4).normal(effect, sd, (8000, blocks))
    detected = (stats.ttest_1samp(logs, 0, axis=1).pvalue < 0.05).mean()
    assert 0.78 < detected < 0.84


@pytest.mark.parametrize("bad", [(-0.1, 6), (math.nan, 6), (0.1, 1), (0.1, 6, 1.0), (0.1, 6, 0.8, 0.0)])
def test_a_detectable_effect_of_impossible_inputs_is_refused(bad):
    with pytest.raises(ValueError):
        mde_ratio(*bad)


def test_stalls_are_counted_with_their_interval():
    groups = [[0.0, 0.01, -0.01, math.log(0.64)], [1.0, 1.01, 0.99, 1.02], [2.0, 1.99]]
    found = stall_rate(groups)
    assert (found.stalled, found.launches, found.rate) == (1, 8, 0.125)
    assert found.low < 0.125 < found.high


def test_a_fast_outlier_or_wide_noise_is_no_stall():
    assert stall_rate([[0.0, 0.01, -0.01, 0.5]]).stalled == 0
    assert stall_rate([np.random.default_rng(5).normal(0, 0.1, 40).tolist()]).stalled == 0


def test_stalls_need_a_median_to_fall_below():
    with pytest.raises(ValueError, match="three launches"):
        stall_rate([[0.0, -0.5]])


def test_wilsons_interval_by_hand():
    low, high = wilson(1, 10)
    assert (low, high) == (pytest.approx(0.01787621), pytest.approx(0.40415003))
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == pytest.approx(1.0)
    with pytest.raises(ValueError):
        wilson(1, 0)
