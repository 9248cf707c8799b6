"""Arrivals of every kind keep their plan, and patterns that other tools send are told from what was asked for."""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest
from load_samples import ask, record, window

from probes.base import Verdict
from probes.load.arrivals import Arrivals, Closed, Constant, Gamma, Open, Poisson, Ramp, Trace
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.offered import Limits, offered
from probes.load.schedule import expected_arrivals, moment_s, planned_times_s
from probes.load.spread import dispersion_limits, spread_of

KINDS: tuple[Open, ...] = (
    Constant(20.0),
    Poisson(20.0),
    Gamma(20.0, 0.3),
    Gamma(20.0, 4.0),
    Ramp(5.0, 40.0, 60.0),
    Ramp(40.0, 4.0, 30.0, "exponential"),
)


def failing(sent_s: list[float], asked: Open) -> set[str]:
    planned = planned_times_s(asked, len(sent_s), 1)
    records = [
        dataclasses.replace(record(n, time_s, time_s + 0.2, 0.1, 3), scheduled_s=due_s)
        for n, (time_s, due_s) in enumerate(zip(sent_s, planned, strict=True))
    ]
    request = ask("http://127.0.0.1:1", arrivals=asked, requests=len(records))
    return {check.name for check in offered(records, request, Limits()) if not check.ok}


@pytest.mark.parametrize("asked", KINDS, ids=str)
def test_a_plan_that_is_kept_passes(asked: Open) -> None:
    assert failing(list(planned_times_s(asked, 2000, 1)), asked) == set()


@pytest.mark.parametrize("asked", KINDS, ids=str)
def test_plans_are_in_order_equal_for_equal_seeds_and_never_move(asked: Open) -> None:
    plan = planned_times_s(asked, 400, 3)
    assert list(plan) == sorted(plan)
    assert plan == planned_times_s(asked, 400, 3)
    assert plan[:100] == planned_times_s(asked, 100, 3)


@pytest.mark.parametrize("asked", [Constant(50.0), Poisson(50.0), Gamma(50.0, 0.5)], ids=str)
def test_the_mean_rate_is_the_asked_one(asked: Open) -> None:
    plan = planned_times_s(asked, 40_000, 5)
    assert 40_000 / plan[-1] == pytest.approx(50.0, rel=0.03)


def test_gamma_gaps_have_the_asked_variation() -> None:
    for shape in (0.25, 1.0, 9.0):
        gaps = np.diff(planned_times_s(Gamma(10.0, shape), 20_000, 2))
        assert gaps.std() / gaps.mean() == pytest.approx(shape**-0.5, rel=0.05)


@pytest.mark.parametrize("ramp", [Ramp(2.0, 8.0, 10.0), Ramp(9.0, 1.0, 5.0), Ramp(1.0, 16.0, 4.0, "exponential")])
def test_a_ramp_sends_what_its_rate_adds_up_to(ramp: Ramp) -> None:
    steps = np.linspace(0.0, 20.0, 200_001)
    share = np.minimum(steps / ramp.over_s, 1.0)
    linear = ramp.start_per_s + (ramp.end_per_s - ramp.start_per_s) * share
    rates = linear if ramp.shape == "linear" else ramp.start_per_s * (ramp.end_per_s / ramp.start_per_s) ** share
    for time_s in (0.5, 3.0, 7.0, 15.0):
        summed = float(np.trapezoid(rates[steps <= time_s], steps[steps <= time_s]))
        assert expected_arrivals(ramp, time_s) == pytest.approx(summed, rel=1e-3)
        assert moment_s(ramp, expected_arrivals(ramp, time_s)) == pytest.approx(time_s)


def test_every_arrival_sent_four_times_over_is_refused() -> None:
    quarter = planned_times_s(Poisson(5.0), 500, 9)
    assert "arrival dispersion" in failing(sorted(time for time in quarter for _ in range(4)), Poisson(20.0))


def test_sleeping_between_sends_instead_of_keeping_a_plan_is_refused() -> None:
    gaps = np.diff(planned_times_s(Poisson(20.0), 2001, 9)) + 0.003
    assert failing(list(itertools.accumulate(gaps.tolist())), Poisson(20.0)) == {"arrival rate"}


def test_random_gaps_are_no_constant_rate() -> None:
    drawn = planned_times_s(Poisson(20.0), 2000, 9)
    scaled = [time * (1999 / 20.0) / drawn[-1] for time in drawn]
    assert failing(scaled, Constant(20.0)) == {"arrival dispersion"}


def test_gaps_that_follow_each_other_are_no_poisson_process() -> None:
    draw = random.Random(4)
    gaps, gap = [], 0.05
    for _ in range(2000):
        gap = 0.7 * gap + 0.3 * draw.expovariate(20.0)
        gaps.append(gap)
    assert failing(list(itertools.accumulate(gaps)), Poisson(20.0)) >= {"arrivals independent"}


def test_the_band_is_wide_enough_for_chance() -> None:
    for seed in range(60):
        found = spread_of(planned_times_s(Poisson(100.0), 1000, seed), Poisson(100.0))
        assert found is not None
        bounds = dispersion_limits(Poisson(100.0), found)
        assert bounds is not None
        assert bounds[0] <= found.dispersion <= bounds[1]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_several_processes_send_one_plan(mock: MockProcess, processes: int) -> None:
    mock.play(Script(first_token_s=0.02, chunks=(1,)))
    asked = ask(mock.url, arrivals=Poisson(120.0), requests=360, processes=processes, warmup_requests=4)
    observation, result = window(asked)
    assert observation.verdict is Verdict.PASS, observation.summary
    assert [record.scheduled_s for record in result.records] == pytest.approx(
        planned_times_s(Poisson(120.0), 360, 0), abs=1e-6
    )
    assert len(result.window.warmup) == 4
    received = sorted(served.received_s - result.window.zero_s for served in mock.truth()[4:])
    found = spread_of(received, Poisson(120.0))
    assert found is not None
    bounds = dispersion_limits(Poisson(120.0), found)
    assert bounds is not None
    assert bounds[0] <= found.dispersion <= bounds[1]


@pytest.mark.parametrize("rate_per_s", [10.0, 100.0, 1000.0, 2000.0])
def test_the_asked_rate_is_reached(mock: MockProcess, rate_per_s: float) -> None:
    mock.play(Script(first_token_s=0.001, chunks=(1,), role_chunk=False, keep_bodies=False))
    requests = max(30, int(2 * rate_per_s))
    reached = []
    for _ in range(6):  # a machine that does much else is now and then late; a client that cannot is so every time
        _, result = window(ask(mock.url, arrivals=Constant(rate_per_s), requests=requests))
        sent = [record.sent_s for record in result.records]
        assert len(sent) == requests
        reached.append((requests - 1) / (max(sent) - min(sent)))
        if abs(reached[-1] / rate_per_s - 1) <= 0.01:
            return
    pytest.fail(f"asked for {rate_per_s:g} per second, sent {reached}")


def test_a_trace_is_replayed_at_its_moments(mock: MockProcess) -> None:
    mock.play(Script(first_token_s=0.01, chunks=(1,)))
    times = (0.0, 0.0, 0.15, 0.5, 0.5)
    _, result = window(ask(mock.url, arrivals=Trace(times), requests=5))
    assert [record.scheduled_s for record in result.records] == pytest.approx(times, abs=1e-6)
    assert all(record.sent_s >= record.scheduled_s for record in result.records)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Closed(0),
        lambda: Constant(0.0),
        lambda: Poisson(float("nan")),
        lambda: Gamma(1.0, -1.0),
        lambda: Ramp(1.0, 0.0, 5.0),
        lambda: Trace(()),
        lambda: Trace((1.0, 0.5)),
        lambda: Trace((-1.0,)),
    ],
)
def test_arrivals_that_cannot_be_are_refused(make: type[Arrivals]) -> None:
    with pytest.raises(ValueError):
        make()
