"""The screen: intervals by hand, the three outcomes, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from infra_agent.judge.screen import screen


def test_one_base_launch_uses_the_assumed_noise_and_says_so():
    found, outcome, reason = screen(math.log(2.9), [0.0])
    half = 2.3263478740408408 * 0.05 * math.sqrt(2)
    assert found.ratio == pytest.approx(2.9)
    assert math.log(found.low) == pytest.approx(math.log(2.9) - half)
    assert math.log(found.high) == pytest.approx(math.log(2.9) + half)
    assert (found.n, found.confidence, found.p) == (2, 0.98, None)
    assert "assumed" in found.method
    assert outcome == "promote"
    assert "claims nothing" in reason


def test_three_base_launches_use_their_own_noise():
    found, _, _ = screen(0.3, [-0.02, 0.0, 0.02])
    half = 6.964556734283273 * 0.02 * math.sqrt(4 / 3)
    assert math.log(found.high) - math.log(found.ratio) == pytest.approx(half)
    assert "3 base launches" in found.method
    assert "assumed" not in found.method


def test_launches_that_agree_by_luck_do_not_make_a_narrow_interval():
    found, outcome, _ = screen(0.0, [0.0, 0.0, 0.0])
    assert math.log(found.high) == pytest.approx(6.964556734283273 * 0.01 * math.sqrt(4 / 3))
    assert outcome == "unclear"


def test_a_clear_loss_is_rejected_in_plain_words():
    _, outcome, reason = screen(math.log(0.68), [0.0, 0.01])
    assert outcome == "reject"
    assert "below a gain of 1 %" in reason


def test_no_gain_that_noise_could_hide_is_unclear():
    _, outcome, reason = screen(-0.02, [0.0])
    assert outcome == "unclear"
    assert "none ruled out" in reason


def test_a_point_above_the_threshold_is_promoted_even_within_noise():
    assert screen(0.02, [0.0])[1] == "promote"
    assert screen(0.02, [0.0], threshold=0.05)[1] == "unclear"


def test_a_known_noise_replaces_the_assumed_one_and_has_a_floor():
    narrow, _, _ = screen(0.0, [0.0], sd_prior=0.001)
    assert math.log(narrow.high) == pytest.approx(2.3263478740408408 * 0.01 * math.sqrt(2))


def test_the_interval_holds_another_base_launch_98_times_in_100():
    rng = np.random.default_rng(6)
    for launches in (3, 5):
        inside = 0
        for _ in range(1500):
            *base, candidate = rng.normal(0, 0.3, launches + 1)
            found, _, _ = screen(candidate, base)
            inside += found.low <= 1 <= found.high
        assert 0.967 < inside / 1500 < 0.993


@pytest.mark.parametrize(
    ("candidate", "base", "prior", "threshold"),
    [
        (0.0, [], 0.05, 0.01),
        (math.nan, [0.0], 0.05, 0.01),
        (0.0, [0.0, -math.inf], 0.05, 0.01),
        (0.0, [0.0], 0.0, 0.01),
        (0.0, [0.0], 0.05, -0.1),
    ],
)
def test_a_screen_without_sound_values_is_refused(candidate, base, prior, threshold):
    with pytest.raises(ValueError):
        screen(candidate, base, prior, threshold)
