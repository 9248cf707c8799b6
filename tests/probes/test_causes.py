from __future__ import annotations

from dataclasses import replace

import pytest

from probes.base import Cost, Observation, Rung, Verdict, Where
from probes.causes import Cause, Suspicion, Trial, Trials, establish, observe, p_value

HERE = Where(parameter="flush_each")
SLOW = (10.0, 10.2, 9.9, 10.1, 10.3)
FAST = (7.0, 7.1, 6.9, 7.2, 7.05)


def trials() -> Trials:
    return Trials(
        metric="request_s", unit="s", base=Trial(change="none", samples=SLOW),
        intervention=Trial(change="flush_each=0", samples=FAST), reversal=Trial(change="flush_each=1", samples=SLOW),
        placebo=Trial(change="label=b", samples=(10.1, 10.0, 10.2, 9.95, 10.15)),
    )  # fmt: skip


def test_moved_undone_and_no_placebo_effect_is_a_cause() -> None:
    found = establish("flush_each", HERE, trials())
    assert isinstance(found, Cause)
    assert found.effect == pytest.approx(-0.30, abs=0.01)
    observation = observe(found, probe="p", rung=Rung.LOAD, wall_s=1.0)
    assert observation.signals["cause"] == "flush_each"
    assert observation.detail["cause"]["reversal"]["samples"] == SLOW


@pytest.mark.parametrize("arm", ["reversal", "placebo"])
def test_without_reversal_or_placebo_there_is_no_cause(arm: str) -> None:
    found = establish("flush_each", HERE, replace(trials(), **{arm: None}))
    assert isinstance(found, Suspicion)
    assert found.verdict == "undecided"
    assert arm in found.reason


def test_an_effect_that_stays_when_the_change_is_taken_back_is_refuted() -> None:
    found = establish("drift", HERE, replace(trials(), reversal=Trial(change="back", samples=FAST)))
    assert isinstance(found, Suspicion)
    assert found.verdict == "refuted"
    assert "does not undo" in found.reason


def test_an_effect_that_a_placebo_has_too_is_refuted() -> None:
    found = establish("restart", HERE, replace(trials(), placebo=Trial(change="touch", samples=FAST)))
    assert isinstance(found, Suspicion)
    assert "touch" in found.reason


def test_an_innocent_setting_is_refuted_and_noise_is_undecided() -> None:
    same = establish("verbose", HERE, replace(trials(), intervention=Trial(change="verbose=0", samples=SLOW)))
    noisy = (10.0, 4.0, 16.0, 9.0, 6.0)
    vague = establish("x", HERE, replace(trials(), intervention=Trial(change="x=0", samples=noisy)))
    assert isinstance(same, Suspicion)
    assert same.verdict == "refuted"
    assert isinstance(vague, Suspicion)
    assert vague.verdict == "undecided"


def test_too_few_samples_and_bad_figures_are_undecided() -> None:
    few = establish("x", HERE, replace(trials(), base=Trial(change="none", samples=(1.0, 1.0))))
    bad = establish("x", HERE, replace(trials(), base=Trial(change="none", samples=(*SLOW, float("nan")))))
    same = establish("x", HERE, replace(trials(), placebo=Trial(change="flush_each=0", samples=SLOW)))
    assert all(isinstance(found, Suspicion) and found.verdict == "undecided" for found in (few, bad, same))


def test_nobody_else_can_make_a_cause() -> None:
    with pytest.raises(TypeError, match="establish"):
        Cause("x", HERE, trials(), -0.3)


def test_an_observation_cannot_say_cause_without_the_record() -> None:
    for detail in ({}, {"cause": "the GIL"}, {"cause": {"base": {"samples": [1.0]}}}):
        with pytest.raises(ValueError, match="intervention, reversal and placebo"):
            Observation(
                probe="p", rung=Rung.LOAD, verdict=Verdict.FAIL, summary="s", where=HERE, cost=Cost(wall_s=0.0),
                signals={"cause": "the GIL"}, detail=detail,
            )  # fmt: skip


def test_the_rank_test_is_exact_and_takes_ties() -> None:
    assert p_value((1, 2, 3, 4), (5, 6, 7, 8)) == pytest.approx(2 / 70)
    assert p_value((1, 1, 1, 1), (1, 1, 1, 1)) == pytest.approx(1.0)
    assert p_value(range(20), range(100, 120)) < 1e-6
