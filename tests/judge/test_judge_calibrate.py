"""The noise floor: from A/A blocks, from launches in a row, pooled; and what it lets the judge prove."""

from __future__ import annotations

import math

import numpy as np
import pytest

from infra_agent.judge.calibrate import (
    aa_noise,
    block_sd_from_launches,
    block_sd_in_a_row,
    noise_sd,
    pooled_sd,
    reach_of_effects,
    reach_within,
)
from infra_agent.judge.decide import BETTER, blocks_needed, provable_ratio
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.simulate import judge_rows, simulate_blocks
from infra_agent.judge.worlds import World


def test_the_pooled_deviation_by_hand():
    assert noise_sd([[0.0, 0.02], [0.10, 0.14]]) == pytest.approx(math.sqrt(0.001 / 2))
    assert noise_sd([[0.0, 0.02], [5.0]]) == pytest.approx(math.sqrt(0.0002))


def test_differences_between_configurations_are_not_noise():
    rng = np.random.default_rng(1)
    groups = [(level + rng.normal(0, 0.02, 3)).tolist() for level in np.linspace(0, 3, 400)]
    assert noise_sd(groups) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("groups", [[], [[1.0]], [[1.0], [2.0]], [[1.0, math.nan]], [[1.0, 1.0], [-math.inf]]])
def test_noise_without_two_finite_launches_is_no_number(groups):
    with pytest.raises(ValueError):
        noise_sd(groups)


def test_aa_blocks_by_hand():
    found = aa_noise([(0.0, 0.03), (0.10, 0.06), (0.20, 0.20)])
    assert found.block_sd == pytest.approx(math.sqrt((0.03**2 + 0.04**2) / 3))
    assert found.launch_sd == pytest.approx(found.block_sd / math.sqrt(2))
    assert found.blocks == 3
    assert found.drift_sd == pytest.approx(math.sqrt(np.var([0.015, 0.08, 0.2], ddof=1) - found.block_sd**2 / 4))


def test_drift_is_told_from_the_noise_of_a_block():
    rng = np.random.default_rng(2)
    drift = np.repeat(rng.normal(0, 0.05, 4000)[:, None], 2, axis=1)
    found = aa_noise((drift + rng.normal(0, 0.02, (4000, 2))).tolist())
    assert found.launch_sd == pytest.approx(0.02, rel=0.05)
    assert found.drift_sd == pytest.approx(0.05, rel=0.05)
    assert aa_noise(rng.normal(0, 0.02, (4000, 2)).tolist()).drift_sd < 0.005


def test_launches_in_a_row_give_a_blocks_noise_without_the_drift():
    rng = np.random.default_rng(3)
    trend = np.linspace(0, 1, 3000)
    logs = trend + rng.normal(0, 0.02, 3000)
    assert block_sd_in_a_row(logs.tolist()) == pytest.approx(block_sd_from_launches(0.02), rel=0.05)


def test_pooling_weighs_by_degrees_of_freedom():
    assert pooled_sd((0.02, 6)) == pytest.approx(0.02)
    assert pooled_sd((0.02, 6), (0.04, 2)) == pytest.approx(math.sqrt((6 * 0.0004 + 2 * 0.0016) / 8))
    with pytest.raises(ValueError, match="nothing"):
        pooled_sd((0.02, 0))


@pytest.mark.parametrize("pairs", [[], [(0.0, 0.1)] * 2, [(0.0, 0.1), (0.0, math.nan), (0.0, 0.1)]])
def test_too_few_or_broken_blocks_give_no_noise(pairs):
    with pytest.raises(ValueError):
        aa_noise(pairs)


@pytest.mark.parametrize("look", [look for look in LOOKS if look >= 6])
def test_what_is_said_to_be_provable_is_proved_about_four_times_in_five(look):
    # Block noise of 3 %, nothing else; looks up to this one, so a little more than its own share.
    world = World(name="plain", run_sd=0.03 / math.sqrt(2))
    effect = provable_ratio(0.03, look, 0.0)
    seen = judge_rows(simulate_blocks(world, effect, 2000, np.random.default_rng(4), look))
    assert 0.72 < seen.rate(BETTER) < 0.93


def test_more_blocks_or_less_noise_prove_smaller_gains():
    ratios = [provable_ratio(0.0238, look, 0.0) for look in LOOKS]
    assert ratios == sorted(ratios, reverse=True)
    assert provable_ratio(0.01, 12) < provable_ratio(0.02, 12)
    for bad in (-0.1, math.nan):
        with pytest.raises(ValueError):
            provable_ratio(bad, 12)


def test_the_reach_is_the_best_look_that_fits_the_time():
    assert reach_within(0.0238, 10.0, 29.9) is None
    six = reach_within(0.0238, 10.0, 89.0)
    assert six is not None
    assert (six.blocks, six.wall_s) == (6, 60.0)
    assert six.ratio == provable_ratio(0.0238, 6, 0.0)
    most = reach_within(0.0238, 10.0, 1e6)
    assert most is not None
    assert most.blocks == 16


def test_the_table_of_effects_names_blocks_and_time_or_says_never():
    table = reach_of_effects(0.0238, 30.0)
    assert table[1.01] is None
    three = table[1.03]
    assert three is not None
    assert (three.blocks, three.wall_s) == (blocks_needed(1.03, 0.0238, 0.0), 30.0 * three.blocks)
    double = table[2.0]
    assert double is not None
    assert double.blocks == 3
