"""The figures that the judge compares are made from a window's own records."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from agent.sessions import add_candidate, session_in
from simulated.lockstep import asked, steady, window
from simulated.stacks import interpreter, is_up

from infra_agent.changes.change import STOCK
from infra_agent.goal.model import Metric, Statistic
from infra_agent.harness.evidence import arm_logs, evidence_of
from infra_agent.harness.measuring import record
from infra_agent.harness.memory import figure_in, launch_logs
from infra_agent.harness.ports import free_port
from infra_agent.harness.stalls import stall_free_name, with_stall_figures
from infra_agent.ledger import kinds as k
from probes.base import Observation, Where
from probes.load.metrics import compute
from probes.load.probe import observe, run
from probes.load.types import Closed, LoadRequest, LoadResult, LoopLag, Prompt, RequestRecord, Window
from probes.load.validity import Limits

LAG = LoopLag(beats=100, mean_s=0.0, p99_s=0.0, max_s=0.0)
PATIENT = Limits(lag_floor_s=30.0, in_flight_share=0.1, rate_share=0.5)


def measured(silences_s: list[float], model: str = "m") -> Observation:
    """What the probe and the harness make of such a window."""
    records = tuple(_named(r, model, number) for number, r in enumerate(window(silences_s)))
    request = asked(records)
    lasts_s = sum(silences_s)
    result = LoadResult(
        request=request,
        window=Window(records=records, warmup=(), lag=LAG, wall_s=lasts_s),
        window_s=lasts_s,
        metrics=compute(records, request),
    )
    observation = observe(result, where=Where(whole_system=True), limits=PATIENT)
    assert observation.quantities, observation.summary
    return with_stall_figures(observation, result)


def _named(record: RequestRecord, model: str, number: int) -> RequestRecord:
    return replace(record, model=model, text=f"answer {number}")


def paused(at: int = 40, pause_s: float = 2.0) -> list[float]:
    silences = steady()
    silences[at] += pause_s
    return silences


def value(observation: Observation, name: str) -> float:
    found = observation.quantity(name)
    assert found is not None, name
    return found.value


def test_a_calm_window_has_no_second_figures() -> None:
    found = measured(steady())
    assert (value(found, "stalls"), value(found, "stall_s")) == (0.0, 0.0)
    assert not [q.name for q in found.quantities if q.name.startswith("stall_free_")]


def test_a_stalled_window_shows_both_and_the_second_are_those_of_the_calm_one() -> None:
    calm, found = measured(steady()), measured(paused())
    assert (value(found, "stalls"), value(found, "stall_s")) == (1.0, pytest.approx(2.0))
    for name in ("output_tok_per_s", "requests_per_s", "ttft_s", "ttft_p50_s", "tpot_s", "e2e_s"):
        assert value(found, f"stall_free_{name}") == pytest.approx(value(calm, name))
    assert value(found, "output_tok_per_s") < 0.8 * value(calm, "output_tok_per_s")


@pytest.mark.parametrize(
    ("metric", "statistic", "name"),
    [
        (Metric.OUTPUT_TOK_PER_S, Statistic.VALUE, "stall_free_output_tok_per_s"),
        (Metric.TTFT_S, Statistic.MEAN, "stall_free_ttft_s"),
        (Metric.E2E_S, Statistic.P50, "stall_free_e2e_p50_s"),
        (Metric.TTFT_S, Statistic.P99, None),
        (Metric.GOODPUT_PER_S, Statistic.VALUE, None),
        (Metric.MEMORY_BYTES, Statistic.VALUE, None),
    ],
)
def test_a_goal_about_the_tail_or_about_something_else_than_speed_keeps_its_stalls(
    metric: Metric, statistic: Statistic, name: str | None
) -> None:
    assert stall_free_name(metric, statistic) == name


def test_blocks_in_the_ledger_become_the_judges_evidence(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        add_candidate(session)
        for index in range(6):
            windows = {STOCK: measured(paused() if index == 2 else steady()), "C1": measured([s / 2 for s in steady()])}
            ids = {
                who: record(session, seen, candidate=who, lane="agent", purpose="block", launch="")
                for who, seen in windows.items()
            }
            values = {who: value(seen, "output_tok_per_s") for who, seen in windows.items()}
            session.ledger.append(
                k.BlockMeasured(
                    candidate="C1", base=STOCK, stage="prove", index=index, order=("base", "candidate"), seed=index,
                    valid=True, base_value=values[STOCK], candidate_value=values["C1"],
                    base_observation=ids[STOCK], candidate_observation=ids["C1"],
                )
            )  # fmt: skip
        found = evidence_of(session.state, session.goal, "C1", "prove")
        arms = arm_logs(session.state, session.goal, "C1", "prove")
        plain = launch_logs(session.state, session.goal, STOCK)
        free = launch_logs(session.state, session.goal, STOCK, stall_free=True)
        stalled = figure_in(session.state.observations["O5"], session.goal)
    assert found.basis == "stall-free"
    assert found.log_ratios == pytest.approx([math.log(2)] * 6)
    assert found.plain[2] > math.log(2.5)
    assert found.stalls is not None
    assert found.stalls[0].stalled == (False, False, True, False, False, False)
    assert [arm.candidate - arm.base for arm in arms] == pytest.approx([math.log(2)] * 6)
    assert max(plain) - min(plain) > 0.3
    assert max(free) - min(free) < 0.01
    assert stalled is not None
    assert math.log(stalled) == pytest.approx(min(plain))


def test_an_engine_that_is_stopped_for_a_while_has_stalled(tmp_path: Path) -> None:
    """A real process, real HTTP, a real pause: the client's own token times show it."""
    port, pause_s = free_port(), 3.0
    url = f"http://127.0.0.1:{port}"
    command = [str(interpreter(tmp_path)), "-m", "transformers.cli.transformers", "serve", "m", "--port", str(port)]
    environment = {**os.environ, "FAKE_GAP_S": "0.02"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as engine:
        try:
            while not is_up(url):
                time.sleep(0.05)
            request = LoadRequest(
                base_url=url, model="m", prompts=(Prompt.of("Say a."), Prompt.of("Say b.")), arrivals=Closed(4),
                requests=12, max_tokens=16, warmup_requests=0, request_timeout_s=60.0,
            )  # fmt: skip
            timer = threading.Timer(1.5, _pause, (engine.pid, pause_s))
            timer.start()
            observation, result = run(request, where=Where(whole_system=True), limits=PATIENT)
            timer.join()
        finally:
            engine.kill()
    found = with_stall_figures(observation, result)
    assert found.quantities, found.summary
    assert value(found, "stalls") >= 1
    assert value(found, "stall_s") > 0.8 * pause_s
    assert value(found, "stall_free_output_tok_per_s") > value(found, "output_tok_per_s")


def _pause(pid: int, pause_s: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(pause_s)
    os.kill(pid, signal.SIGCONT)
