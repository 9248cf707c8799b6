"""The judge's error rates in seeded worlds, and the worlds themselves. Bands are binomial, at about 1 in 1000."""

from __future__ import annotations

import math

import numpy as np
import pytest

from infra_agent.judge.decide import BETTER, GO_ON, NO_GAIN, SLOWER, decide
from infra_agent.judge.estimate import estimate_rows
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.rivals import RIVALS, accept_rate, bca_covers, t_covers
from infra_agent.judge.simulate import WORLDS, World, block_log_ratios, covers, judge_rows, planned_orders
from infra_agent.judge.types import Decision

NAMED = {world.name: world for world in WORLDS}
PROMISED = [world for world in WORLDS if world.held]
ROWS = 4000
CODES = {Decision.ACCEPTED: (BETTER,), Decision.REJECTED: (SLOWER, NO_GAIN), Decision.INCONCLUSIVE: (GO_ON,)}


def at_most(limit: float, rows: int = ROWS) -> float:
    return limit + 3.1 * math.sqrt(limit * (1 - limit) / rows)


@pytest.mark.parametrize("world", PROMISED, ids=lambda world: world.name)
def test_a_useless_change_is_accepted_or_called_worse_at_most_once_in_forty(world):
    seen = judge_rows(block_log_ratios(world, 1.0, ROWS, np.random.default_rng(1)))
    assert seen.rate(BETTER) <= at_most(0.025)
    assert seen.rate(SLOWER) <= at_most(0.025)
    assert seen.held(1.0) >= 0.95 - 3.1 * math.sqrt(0.95 * 0.05 / ROWS)


def test_accepted_rows_have_an_interval_above_one_and_reach_the_threshold():
    logs = block_log_ratios(NAMED["drift, stalls"], 1.02, 10_000, np.random.default_rng(14))
    seen = judge_rows(logs)
    accepted = seen.codes == BETTER
    assert 3000 < accepted.sum() < 7000
    assert (seen.low[accepted] > 1).all()
    assert (seen.ratio[accepted] >= 1.01).all()
    assert (seen.high[np.isin(seen.codes, (SLOWER, NO_GAIN))] < 1.01).all()


def test_five_looks_at_five_percent_each_would_break_the_promise():
    logs = block_log_ratios(NAMED["noisy, drift"], 1.0, ROWS, np.random.default_rng(2))
    accepted = np.zeros(ROWS, dtype=bool)
    for look in LOOKS:
        found = estimate_rows(logs[:, :look], 0.05)
        accepted |= (found.low > 0) & (found.centre >= math.log(1.01))
    assert accepted.mean() > at_most(0.025)


def test_real_gains_are_found_and_doubling_needs_three_blocks():
    drift = NAMED["drift"]
    five = judge_rows(block_log_ratios(drift, 1.05, 1000, np.random.default_rng(3)))
    assert five.rate(BETTER) > 0.97
    double = judge_rows(block_log_ratios(drift, 2.0, 1000, np.random.default_rng(4)))
    assert double.rate(BETTER) > 0.99
    assert (double.blocks == 3).mean() > 0.97


def test_real_losses_are_rejected_and_hardly_ever_accepted():
    seen = judge_rows(block_log_ratios(NAMED["drift, stalls"], 0.9, 1000, np.random.default_rng(5)))
    assert seen.rate(BETTER) < 0.005
    assert seen.rate(SLOWER, NO_GAIN) > 0.7


def test_many_rows_are_judged_as_one_by_one():
    logs = block_log_ratios(NAMED["noisy, drift"], 1.04, 150, np.random.default_rng(6))
    seen = judge_rows(logs)
    for row, code, blocks in zip(logs, seen.codes, seen.blocks, strict=True):
        for look in LOOKS:
            one = decide(row[:look].tolist(), look)
            if one.decision is not None:
                break
        assert one.blocks == blocks
        assert code in CODES[one.decision]


@pytest.mark.parametrize("name", ["drift", "drift, stalls", "random walk"])
@pytest.mark.parametrize("blocks", [6, 9, 12, 16])
def test_the_95_percent_interval_covers(name, blocks):
    logs = block_log_ratios(NAMED[name], 1.03, ROWS, np.random.default_rng((7, blocks)), blocks)
    assert 0.94 < covers(logs, 1.03) < 0.98


def test_the_bootstrap_interval_covers_too_little_at_six_blocks():
    rng = np.random.default_rng(8)
    logs = block_log_ratios(NAMED["drift"], 1.03, 300, rng, 6)
    assert bca_covers(logs, 1.03, rng, resamples=499) < 0.93
    assert t_covers(logs, 1.03) > 0.91


def test_a_single_run_each_accepts_a_third_of_useless_changes():
    rng = np.random.default_rng(9)
    rates = {rival.name: accept_rate(rival, NAMED["random walk"], 1.0, ROWS, rng) for rival in RIVALS}
    assert 0.33 < rates["one run each, keep above 1 %"] < 0.40
    assert rates["7 + 7 interleaved, slowest above fastest"] < 0.002


def test_one_launch_per_arm_carries_its_effect_into_every_run():
    world = World(name="launch effect only", launch_sd=0.02)
    single, welch = RIVALS[0], RIVALS[1]
    assert single.relaunched
    assert not welch.relaunched
    assert accept_rate(welch, NAMED["drift"], 1.0, ROWS, np.random.default_rng(10)) > 0.12
    assert accept_rate(single, world, 1.0, ROWS, np.random.default_rng(11)) > 0.3


def test_a_steady_trend_cancels_within_each_pair_of_blocks():
    world = World(name="trend only", trend_per_run=0.01)
    logs = block_log_ratios(world, 1.5, 20, np.random.default_rng(12))
    assert np.abs(logs - math.log(1.5)).max() == pytest.approx(0.01)
    assert logs[:, ::2] + logs[:, 1::2] == pytest.approx(2 * math.log(1.5))


def test_drift_has_the_stated_deviation_and_mostly_cancels_within_a_block():
    world = World(name="drift only", drift_sd=0.02)
    logs = block_log_ratios(world, 1.0, 4000, np.random.default_rng(13))
    assert logs.std() == pytest.approx(0.02 * math.sqrt(2 * (1 - 0.9)), rel=0.03)


def test_the_same_seed_gives_the_same_world():
    one, same, other = (block_log_ratios(NAMED["drift, stalls"], 1.0, 5, np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_simulated_orders_are_the_planned_ones():
    orders = planned_orders(16)
    assert (orders[:, ::2] != orders[:, 1::2]).all()
    assert 0.4 < orders[:, 0].mean() < 0.6
