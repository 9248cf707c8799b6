"""Decisions: each way out at each look, what an acceptance implies, and the plan of looks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.judge.decide import SPENDING, blocks_needed, decide, goal_reached, next_look
from infra_agent.judge.estimate import estimate
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.types import Decision, Guard

SPREAD = np.linspace(-0.01, 0.01, 16)


def around(gain: float, blocks: int, width: float = 1.0) -> list[float]:
    picked = SPREAD[np.linspace(0, 15, blocks).astype(int)]
    return (gain + width * picked).tolist()


@st.composite
def looks_data(draw: st.DrawFn) -> list[float]:
    blocks = draw(st.sampled_from(LOOKS))
    centre = draw(st.integers(-150, 150)) / 1000
    noise = st.integers(-60, 60).map(lambda k: k / 1000)
    return [centre + x for x in draw(st.lists(noise, min_size=blocks, max_size=blocks))]


@pytest.mark.parametrize("blocks", LOOKS)
def test_every_look_can_accept_and_can_call_a_loss(blocks):
    gain = decide(around(0.7, blocks), blocks)
    assert (gain.decision, gain.cause) == (Decision.ACCEPTED, "proved")
    loss = decide(around(-0.7, blocks), blocks)
    assert (loss.decision, loss.cause) == (Decision.REJECTED, "slower")
    assert gain.alpha == SPENDING[blocks] == pytest.approx(1 - gain.estimate.confidence)


def test_three_blocks_settle_only_large_effects():
    assert decide([0.05, 0.05, 0.05], 3).decision is None
    assert decide([0.69, 0.70, 0.71], 3).decision is Decision.ACCEPTED


def test_a_gain_too_small_to_matter_is_rejected_as_no_gain():
    look = decide(around(0.004, 9, width=0.1), 9)
    assert look.estimate.low > 1
    assert (look.decision, look.cause) == (Decision.REJECTED, "no_gain")
    assert "1 %" in look.reason


def test_a_significant_gain_below_the_threshold_is_not_accepted_while_more_is_possible():
    logs = [0.008 + x for x in (-0.005, -0.004, -0.002, -0.001, 0.0, 0.001, 0.002, 0.004, 0.005)]
    look = decide(logs, 9)
    assert look.estimate.low > 1
    assert look.estimate.ratio < 1.01 < look.estimate.high
    assert look.decision is None
    assert decide(logs, 9, max_blocks=9).decision is Decision.INCONCLUSIVE
    assert decide(logs, 9, threshold=0.005).decision is Decision.ACCEPTED


def test_the_threshold_is_the_callers():
    logs = around(0.02, 9, width=0.2)
    assert decide(logs, 9).decision is Decision.ACCEPTED
    assert decide(logs, 9, threshold=0.05).decision is Decision.REJECTED


def test_noise_goes_on_and_is_inconclusive_only_at_the_last_look():
    logs = [0.05, -0.04, 0.06, -0.05, 0.03, -0.03, 0.07, -0.06, 0.02, -0.01, 0.05, -0.05, 0.04, -0.04, 0.06, -0.06]
    for blocks in LOOKS[:-1]:
        look = decide(logs[:blocks], blocks)
        assert look.decision is None
        assert look.cause is None
        assert f"next look is at {next_look(blocks)} blocks" in look.reason
    last = decide(logs, 16)
    assert (last.decision, last.cause) == (Decision.INCONCLUSIVE, "unclear")


def test_a_lower_ceiling_makes_an_earlier_look_the_last():
    logs = [0.05, -0.04, 0.06, -0.05, 0.03, -0.03, 0.07, -0.06, 0.02]
    assert decide(logs, 9, max_blocks=11).decision is Decision.INCONCLUSIVE
    assert decide(logs, 9, max_blocks=12).decision is None


@given(looks_data())
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_accepted_means_an_interval_above_one_and_an_estimate_at_the_threshold(logs):
    look = decide(logs, len(logs))
    found = look.estimate
    accepted = found.low > 1 and found.ratio >= 1.01 and found.high >= 1.01
    assert (look.decision is Decision.ACCEPTED) == accepted
    if look.decision is Decision.ACCEPTED:
        assert found.p is not None
        assert found.p <= look.alpha
    if look.decision is Decision.REJECTED:
        assert found.high < 1.01


@given(looks_data())
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_swapping_the_arms_of_an_accepted_candidate_gives_a_loss(logs):
    if decide(logs, len(logs)).decision is Decision.ACCEPTED:
        mirrored = decide([-x for x in logs], len(logs))
        assert (mirrored.decision, mirrored.cause) == (Decision.REJECTED, "slower")


@given(looks_data(), st.randoms(use_true_random=False))
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
def test_the_order_of_blocks_does_not_change_a_decision(logs, random):
    rounded = [round(x * 256) / 256 for x in logs]  # exact in binary, so that sums do not depend on order
    shuffled = rounded.copy()
    random.shuffle(shuffled)
    assert decide(rounded, len(logs)).decision == decide(shuffled, len(logs)).decision


@pytest.mark.parametrize("blocks", [0, 1, 2, 4, 5, 7, 15, 17])
def test_only_planned_looks_are_taken(blocks):
    with pytest.raises(ValueError, match="looks are 3, 6, 9, 12, 16"):
        decide([0.1] * blocks, blocks)


def test_a_look_beyond_the_ceiling_or_with_a_wrong_count_is_refused():
    with pytest.raises(ValueError, match="looks are 3, 6"):
        decide([0.1] * 9, 9, max_blocks=8)
    with pytest.raises(ValueError, match="none within 2"):
        decide([0.1] * 3, 3, max_blocks=2)
    with pytest.raises(ValueError, match="do not belong"):
        decide([0.1] * 5, 6)
    with pytest.raises(ValueError, match="threshold"):
        decide([0.1] * 3, 3, threshold=-0.01)
    with pytest.raises(ValueError, match="finite"):
        decide([0.1, 0.1, math.nan], 3)


def test_the_looks_follow_each_other():
    assert [next_look(done) for done in (0, 3, 5, 6, 9, 12, 16)] == [3, 6, 6, 9, 12, 16, None]
    assert next_look(6, max_blocks=8) is None
    assert next_look(0, max_blocks=2) is None


def test_the_exact_test_is_used_where_it_can_reach_its_share():
    for look, alpha in SPENDING.items():
        rank_based = "Wilcoxon" in decide(around(0.1, look), look).estimate.method
        assert rank_based == (look >= 6 and 2 / 2**look <= alpha) == (look >= 9)


def test_a_goal_is_met_missed_or_open_by_the_whole_interval():
    found = dataclasses.replace(estimate(around(math.log(2), 9)), ratio=2.0, low=1.9, high=2.1)
    assert goal_reached(found, 1.9) == "met"
    assert goal_reached(found, 2.0) == "undecided"
    assert goal_reached(found, 2.1) == "undecided"
    assert goal_reached(found, 2.11) == "not_met"
    with pytest.raises(ValueError, match="target"):
        goal_reached(found, 0.0)


def test_more_noise_or_a_smaller_gain_needs_more_blocks():
    assert [blocks_needed(1.03, sd) for sd in (0.0, 0.0238, 0.05)] == [6, 12, None]
    assert [blocks_needed(gain, 0.03) for gain in (1.5, 1.1, 1.05, 1.01)] == [3, 6, 9, None]
    assert blocks_needed(0.5, 0.03) == 3
    assert blocks_needed(1.0, 0.0) is None
    assert blocks_needed(1.005, 0.0) is None
    for bad in ((0.0, 0.1), (1.1, -0.1), (math.nan, 0.1), (1.1, math.inf)):
        with pytest.raises(ValueError):
            blocks_needed(*bad)


OPEN = Guard(name="x", state="open", reason="x is not shown to hold", cause="infeasible")
BROKEN = Guard(name="y", state="broken", reason="y is broken", cause="infeasible")
HOLDS = Guard(name="z", state="holds", reason="z holds", cause="infeasible")


def test_a_gain_is_accepted_only_when_every_guard_holds():
    logs = around(0.1, 9)
    assert decide(logs, 9, guards=[HOLDS]).decision is Decision.ACCEPTED
    waits = decide(logs, 9, guards=[HOLDS, OPEN])
    assert waits.decision is None
    assert "x is not shown to hold; the next look is at 12 blocks" in waits.reason
    ends = decide(logs, 9, max_blocks=9, guards=[OPEN])
    assert (ends.decision, ends.cause) == (Decision.INCONCLUSIVE, "unclear")


def test_a_broken_guard_rejects_before_the_gain_is_settled():
    look = decide(around(0.02, 3), 3, guards=[OPEN, BROKEN])
    assert (look.decision, look.cause) == (Decision.REJECTED, "infeasible")
    assert "y is broken" in look.reason


def test_a_loss_is_a_loss_whatever_the_guards_say():
    for guards in ([OPEN], [BROKEN], [HOLDS]):
        look = decide(around(-0.1, 9), 9, guards=guards)
        assert (look.decision, look.cause) == (Decision.REJECTED, "slower")


def test_an_open_guard_does_not_hurry_what_the_gain_has_not_settled():
    look = decide(around(0.02, 3), 3, guards=[OPEN])
    assert look.decision is None
    assert "not settled" in look.reason


def test_a_candidate_without_a_gain_that_matters_is_rejected_as_that_whatever_its_guards_say():
    look = decide(around(0.004, 9, width=0.1), 9, guards=[BROKEN])
    assert (look.decision, look.cause) == (Decision.REJECTED, "no_gain")
    assert "ruled out" in look.reason
