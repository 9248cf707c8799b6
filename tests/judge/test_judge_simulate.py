"""The judge's error rates in seeded worlds, and the worlds themselves. Bands are binomial, at about 1 in 1000."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated.lockstep import asked, window

from infra_agent.judge.decide import BETTER, GO_ON, NO_GAIN, SLOWER
from infra_agent.judge.estimate import estimate_rows
from infra_agent.judge.evidence import Evidence, Stalls, look_at
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.rivals import RIVALS, accept_rate, bca_covers, t_covers, widened_bootstrap
from infra_agent.judge.simulate import STALLS_MORE, Blocks, covers, judge_rows, planned_orders, simulate_blocks
from infra_agent.judge.types import Decision
from infra_agent.judge.worlds import TOKENS, WORLDS, World, opening_silences, silences_of, simulate_runs
from probes.load.metrics import compute
from probes.load.robust import excess_s, find_stalls, without_stalls

NAMED = {world.name: world for world in WORLDS}
PROMISED = [world for world in WORLDS if world.held]
ROWS = 4000
CODES = {
    Decision.ACCEPTED: (BETTER,),
    Decision.REJECTED: (SLOWER, NO_GAIN, STALLS_MORE),
    Decision.INCONCLUSIVE: (GO_ON,),
}


def at_most(limit: float, rows: int = ROWS) -> float:
    return limit + 3.1 * math.sqrt(limit * (1 - limit) / rows)


@pytest.mark.parametrize("world", PROMISED, ids=lambda world: world.name)
def test_a_useless_change_is_accepted_or_called_worse_at_most_once_in_forty(world):
    seen = judge_rows(simulate_blocks(world, 1.0, ROWS, np.random.default_rng(1)))
    assert seen.rate(BETTER) <= at_most(0.025)
    assert seen.rate(SLOWER, STALLS_MORE) <= at_most(0.025)
    assert seen.held(1.0) >= 0.95 - 3.1 * math.sqrt(0.95 * 0.05 / ROWS)


def test_accepted_means_an_interval_above_one_and_the_threshold_in_ten_thousand_measurement_sets():
    gains = np.random.default_rng(20).choice([0.97, 1.0, 1.005, 1.01, 1.02, 1.05], 10)
    accepted = 0
    for number, effect in enumerate(gains):
        measured = simulate_blocks(NAMED["drift, stalls"], float(effect), 1000, np.random.default_rng((14, number)))
        seen = judge_rows(measured)
        kept = seen.codes == BETTER
        accepted += int(kept.sum())
        assert (np.log(seen.low[kept]) > 0).all()
        assert (seen.ratio[kept] >= 1.01).all()
        assert (seen.high[np.isin(seen.codes, (SLOWER, NO_GAIN))] < 1.01).all()
    assert 1000 < accepted < 6000


def test_five_looks_at_five_percent_each_would_break_the_promise():
    logs = simulate_blocks(NAMED["noisy, drift"], 1.0, ROWS, np.random.default_rng(2)).log_ratios
    accepted = np.zeros(ROWS, dtype=bool)
    for look in LOOKS:
        found = estimate_rows(logs[:, :look], 0.05)
        accepted |= (found.low > 0) & (found.centre >= math.log(1.01))
    assert accepted.mean() > at_most(0.025)


def test_real_gains_are_found_and_doubling_needs_three_blocks():
    drift = NAMED["drift"]
    five = judge_rows(simulate_blocks(drift, 1.05, 1000, np.random.default_rng(3)))
    assert five.rate(BETTER) > 0.97
    double = judge_rows(simulate_blocks(drift, 2.0, 1000, np.random.default_rng(4)))
    assert double.rate(BETTER) > 0.99
    assert (double.blocks == 3).mean() > 0.97


def test_a_three_percent_gain_is_found_through_stalls_that_hide_it_from_plain_figures():
    measured = simulate_blocks(NAMED["drift, stalls"], 1.03, 2000, np.random.default_rng(15))
    nothing = np.zeros_like(measured.base_loss)
    plain = judge_rows(Blocks(plain=measured.plain, base_loss=nothing, candidate_loss=nothing))
    seen = judge_rows(measured)
    assert seen.rate(BETTER) > 0.80
    assert plain.rate(BETTER) < 0.72


def test_a_candidate_that_hides_its_cost_in_stalls_is_hardly_ever_accepted():
    drift = {"run_sd": 0.012, "launch_sd": 0.01, "drift_sd": 0.02}
    half = World(name="half", candidate_stall_rate=0.5, **drift)
    every = World(name="every", candidate_stall_rate=1.0, **drift)
    assert judge_rows(simulate_blocks(half, 1.03, 1000, np.random.default_rng(16))).rate(BETTER) < 0.04
    assert judge_rows(simulate_blocks(every, 1.5, 1000, np.random.default_rng(17))).rate(BETTER) == 0.0


def test_real_losses_are_rejected_and_hardly_ever_accepted():
    seen = judge_rows(simulate_blocks(NAMED["drift, stalls"], 0.9, 1000, np.random.default_rng(5)))
    assert seen.rate(BETTER) < 0.005
    assert seen.rate(SLOWER, NO_GAIN) > 0.9


def test_many_rows_are_judged_as_one_by_one():
    world = World(name="rough", run_sd=0.02, launch_sd=0.01, stall_rate=0.15, candidate_stall_rate=0.3)
    measured = simulate_blocks(world, 1.04, 150, np.random.default_rng(6))
    seen = judge_rows(measured)
    for row in range(150):
        arms = (measured.base_loss[row], measured.candidate_loss[row])
        stalls = tuple(Stalls(stalled=tuple((arm > 0).tolist()), loss=tuple(arm.tolist())) for arm in arms)
        evidence = Evidence(plain=tuple(measured.plain[row].tolist()), stalls=(stalls[0], stalls[1]))
        one = next(look for n in LOOKS if (look := look_at(evidence.first(n))).decision is not None)
        assert one.blocks == seen.blocks[row]
        assert seen.codes[row] in CODES[one.decision]


@pytest.mark.parametrize("name", ["drift", "drift, stalls", "random walk"])
@pytest.mark.parametrize("blocks", [6, 9, 12, 16])
def test_the_95_percent_interval_covers_as_much_and_not_more(name, blocks):
    logs = simulate_blocks(NAMED[name], 1.03, ROWS, np.random.default_rng((7, blocks)), blocks).log_ratios
    assert 0.938 < covers(logs, 1.03) < 0.962


def test_bootstrap_intervals_cover_too_little_at_six_blocks():
    rng = np.random.default_rng(8)
    logs = simulate_blocks(NAMED["drift"], 1.03, 300, rng, 6).log_ratios
    assert bca_covers(logs, 1.03, rng, resamples=499) < 0.93
    low, high = widened_bootstrap(logs, rng, resamples=499)
    assert ((low <= math.log(1.03)) & (math.log(1.03) <= high)).mean() < 0.96
    assert t_covers(logs, 1.03) > 0.91


def test_rules_in_common_use_accept_useless_changes():
    rates = {r.name: accept_rate(r, NAMED["drift"], 1.0, ROWS, np.random.default_rng(9)) for r in RIVALS}
    assert 0.31 < rates["one run each, more than 1 % better"] < 0.38
    assert 0.30 < rates["best of 5 each, more than 1 % better"] < 0.37
    assert 0.08 < rates["5 + 5 in sequence, mean above base mean + 2 sd"] < 0.15
    assert 0.12 < rates["5 + 5 in sequence, Welch t"] < 0.20
    assert 0.04 < rates["5 + 5 in sequence, 95 % intervals apart"] < 0.10
    assert rates["7 + 7 interleaved, slowest above fastest"] < 0.002


def test_one_launch_per_arm_carries_its_effect_into_every_run():
    world = World(name="launch effect only", launch_sd=0.02)
    rng = np.random.default_rng(10)
    shared = simulate_runs(world, np.array([[False] * 3 + [True] * 3]), 1.0, rng, relaunched=False).plain[0]
    fresh = simulate_runs(world, np.array([[False] * 3 + [True] * 3]), 1.0, rng).plain[0]
    assert len(set(shared.tolist())) == 2
    assert len(set(fresh.tolist())) == 6


def test_a_steady_trend_cancels_within_each_pair_of_blocks():
    world = World(name="trend only", trend_per_run=0.01)
    logs = simulate_blocks(world, 1.5, 20, np.random.default_rng(12)).log_ratios
    assert np.abs(logs - math.log(1.5)).max() == pytest.approx(0.01)
    assert logs[:, ::2] + logs[:, 1::2] == pytest.approx(2 * math.log(1.5))


def test_drift_has_the_stated_deviation_and_mostly_cancels_within_a_block():
    world = World(name="drift only", drift_sd=0.02)
    logs = simulate_blocks(world, 1.0, 4000, np.random.default_rng(13)).log_ratios
    assert logs.std() == pytest.approx(0.02 * math.sqrt(2 * (1 - 0.9)), rel=0.03)


def test_a_pause_makes_a_run_as_slow_as_stated_and_its_loss_is_what_the_product_finds():
    world = World(name="pauses only", stall_rate=0.5)
    runs = simulate_runs(world, np.zeros((400, 4), dtype=bool), 1.0, np.random.default_rng(18))
    struck = runs.plain < -0.1
    assert 0.45 < struck.mean() < 0.55
    assert np.exp(runs.plain[struck]) == pytest.approx(0.64)
    assert (runs.loss[~struck] == 0).all()
    assert (runs.loss[struck] > 0).mean() > 0.9
    assert runs.plain[struck & (runs.loss > 0)] + runs.loss[struck & (runs.loss > 0)] == pytest.approx(0.0, abs=0.03)


def test_the_simulated_figures_are_those_that_the_product_computes_from_records():
    rng = np.random.default_rng(19)
    values, struck = rng.normal(0, 0.02, 30), rng.random(30) < 0.6
    silences_s = silences_of(values, struck, 0.5625, rng)
    lost_s = excess_s(silences_s, opening_silences()[None, :]).sum(axis=1)
    for row, lost in zip(silences_s, lost_s, strict=True):
        records = window(row.tolist(), tokens=TOKENS)
        stalls = find_stalls(records)
        assert stalls is not None
        plain = compute(records, asked(records)).rates["output_tok_per_s"]
        free = compute(without_stalls(records, stalls), asked(records)).rates["output_tok_per_s"]
        assert plain == pytest.approx(len(records) * TOKENS / row.sum())
        assert free == pytest.approx(len(records) * TOKENS / (row.sum() - lost))


def test_a_slow_run_shows_nothing_inside():
    world = World(name="slow runs only", stall_rate=0.5, stall="slow run")
    runs = simulate_runs(world, np.zeros((100, 4), dtype=bool), 1.0, np.random.default_rng(21))
    assert not runs.loss.any()
    assert set(np.round(np.exp(runs.plain).ravel(), 6)) == {0.64, 1.0}


def test_the_same_seed_gives_the_same_world():
    one, same, other = (
        simulate_blocks(NAMED["drift, stalls"], 1.0, 5, np.random.default_rng(s)).plain for s in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_simulated_orders_are_the_planned_ones():
    orders = planned_orders(16)
    assert (orders[:, ::2] != orders[:, 1::2]).all()
    assert 0.4 < orders[:, 0].mean() < 0.6
