"""What a run says of its noise before it spends anything, and which goals it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent.dossiers import GOAL
from agent.sessions import add_window, session_in
from harness.floors import floor
from harness.recorded import Window, recorded

from infra_agent.errors import ExitCode, NotProvable
from infra_agent.goal.model import Direction, Goal, Metric, Statistic, Target
from infra_agent.harness import noise
from infra_agent.harness.noise import block_s, know_noise, percent, record_noise, require_provable, tell_prior
from infra_agent.harness.noisefloor import MetricNoise
from infra_agent.harness.session import Session
from infra_agent.judge.decide import provable_ratio
from infra_agent.ledger import kinds as k


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, label: str, text: str, seconds: float | None = None) -> None:
        self.lines.append(f"{label}: {text}")

    def status(self, text: str) -> None:
        pass


def asking(ratio: float) -> Goal:
    return GOAL.model_copy(update={"target": Target(kind="ratio", value=ratio)})


def stored(monkeypatch: pytest.MonkeyPatch, sd_block: float | None, degrees: int = 6) -> None:
    """A noise floor for whatever run asks; None: nothing is stored."""

    def find(key: Any) -> Any:
        if sd_block is None:
            return None
        metrics = {"output_tok_per_s": MetricNoise(block_sd=sd_block, drift_sd=0.0, degrees=degrees)}
        return floor(key, metrics=metrics, block_s=20.0)

    monkeypatch.setattr(noise, "find_floor", find)


def baseline(session: Session, value: float = 25.0, ready_s: float = 5.0, window_s: float = 4.0) -> None:
    session.ledger.append(
        k.LaunchStarted(
            id="L1", candidate="stock", arm="stock", purpose="baseline", lane="agent", settings={}, argv=("x",)
        )
    )
    observation = Window(value=value).observation()
    session.ledger.append(
        k.ObservationMade(
            id="O1", candidate="stock", lane="agent", purpose="baseline", launch="L1",
            observation={
                "probe": "load", "verdict": "pass", "cost": {"wall_s": window_s}, "signals": {},
                "quantities": [{"name": q.name, "value": q.value} for q in observation.quantities],
            },
        )
    )  # fmt: skip
    session.ledger.append(k.LaunchEnded(id="L1", outcome="stopped", ready_s=ready_s, wall_s=60.0))


def test_a_stored_floor_is_told_with_its_date_before_anything_is_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(monkeypatch, 0.02)
    said = Said()
    with session_in(tmp_path) as session:
        tell_prior(replace(session, narrator=said))
    assert said.lines == [
        "Noise: A/A of 2026-11-30 14:02 UTC, 6 blocks: one block varies by 2 %; 12 blocks, about 4 min, prove 2.2 %"
    ]


def test_without_a_floor_the_command_that_measures_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(monkeypatch, None)
    said = Said()
    with session_in(tmp_path) as session:
        session = replace(session, narrator=said)
        tell_prior(session)
        baseline(session)
        know_noise(session)
        known = session.state.noise
    assert "doctor --noise" in said.lines[0]
    assert known is not None
    assert (known.source, known.samples) == ("assumed", 0)


def test_a_stored_floor_becomes_the_runs_noise_and_stocks_own_launches_refine_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(monkeypatch, 0.02)
    with session_in(tmp_path) as session:
        baseline(session)
        know_noise(session)
        first = session.state.noise
        for value in (25.0, 25.0, 25.0):
            add_window(session, "stock", value)
        record_noise(session)
        record_noise(session)
        after = session.state.noise
    assert first is not None
    assert after is not None
    assert (first.source, first.samples, first.measured_at[:10]) == ("calibrated", 6, "2026-11-30")
    assert first.sd_log == pytest.approx(0.02 / math.sqrt(2))
    assert (after.source, after.samples) == ("calibrated", 9)
    assert after.sd_log == pytest.approx(math.sqrt(0.02**2 * 6 / 9) / math.sqrt(2))


def test_a_goal_below_what_can_be_proved_is_refused_with_what_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(monkeypatch, 0.03)
    with session_in(tmp_path, goal=asking(1.01)) as session:
        baseline(session)
        know_noise(session)
        with pytest.raises(NotProvable) as refused:
            require_provable(session)
    assert refused.value.message == "cannot prove 1 % here in 10 min; can prove 2.5 %"
    assert refused.value.exit_code == ExitCode.NOT_MET
    assert "no budget is enough" in refused.value.hint


def test_a_goal_just_out_of_reach_is_told_from_what_is_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(monkeypatch, 0.03)
    asked = provable_ratio(0.03, 16, 0.0) - 0.0001
    with session_in(tmp_path, goal=asking(asked)) as session:
        baseline(session)
        know_noise(session)
        with pytest.raises(NotProvable, match=r"cannot prove 2\.54 % here in 10 min; can prove 2\.55 %"):
            require_provable(session)


def test_a_goal_that_only_lacks_time_is_told_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(monkeypatch, 0.03)
    with session_in(tmp_path, goal=asking(1.05), budget_s=180.0) as session:
        baseline(session)
        know_noise(session)
        with pytest.raises(NotProvable, match="cannot prove 5 % here in 3 min; can prove") as refused:
            require_provable(session)
    assert "takes 9 blocks: --budget 5m" in refused.value.hint


@pytest.mark.parametrize("asked", [1.05, 2.0])
def test_a_goal_within_reach_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: float) -> None:
    stored(monkeypatch, 0.03)
    with session_in(tmp_path, goal=asking(asked)) as session:
        baseline(session)
        know_noise(session)
        require_provable(session)


def test_an_absolute_latency_target_is_asked_of_stocks_own_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = GOAL.model_copy(
        update={
            "metric": Metric.TTFT_S, "statistic": Statistic.MEAN, "direction": Direction.MINIMISE,
            "target": Target(kind="absolute", value=0.396),
        }
    )  # fmt: skip
    stored(monkeypatch, None)
    with session_in(tmp_path, goal=goal) as session:
        session.ledger.append(k.NoiseKnown(sd_log=0.02, mde_ratio=1.0, blocks=12, samples=6, source="calibrated"))
        add_window(session, "stock", 25.0, ttft_s=0.4)
        monkeypatch.setattr(noise, "block_s", lambda session: 20.0)
        with pytest.raises(NotProvable, match="cannot prove 1 % here"):
            require_provable(session)


def test_an_assumption_refuses_nothing_stock_is_launched_again_and_its_noise_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(monkeypatch, None)
    wobble = [1.0, 1.001, 0.999, 1.0, 1.001, 1.0]
    launches = recorded(monkeypatch, lambda which, number: Window(value=25.0 * wobble[number % 6]))
    with session_in(tmp_path, goal=asking(1.03), budget_s=3000.0) as session:
        baseline(session)
        know_noise(session)
        require_provable(session)
        known = session.state.noise
    assert known is not None
    assert (known.source, known.samples) == ("stock arms", 6)
    assert known.sd_log < 0.002
    assert {which for which, _ in launches.made} == {"stock"}
    assert len({seed for _, seed in launches.made}) == 1


def test_a_large_goal_costs_no_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(monkeypatch, None)
    launches = recorded(monkeypatch, lambda which, number: Window(value=25.0))
    with session_in(tmp_path, goal=asking(2.0)) as session:
        baseline(session)
        know_noise(session)
        require_provable(session)
    assert launches.made == []


def test_a_block_takes_two_starts_and_two_windows_and_not_what_else_a_launch_was_used_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_in(tmp_path) as session:
        baseline(session, ready_s=5.0, window_s=4.0)
        assert block_s(session) == pytest.approx(2 * (5.0 + 4.0 + noise.STOP_S))


@pytest.mark.parametrize(
    ("ratio", "words"), [(1.01, "1 %"), (1.0234, "2.3 %"), (1.5, "50 %"), (2.0, "x2"), (2.94, "x2.94")]
)
def test_gains_are_said_as_people_say_them(ratio: float, words: str) -> None:
    assert percent(ratio) == words
