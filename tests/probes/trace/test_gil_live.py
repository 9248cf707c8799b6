"""The probe on real processes. Figures are compared within one process, so that a busy machine does not decide."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from probes.trace.gil import control, ruleouts, spy
from probes.trace.gil.__main__ import launched
from probes.trace.gil.look import look

HOG = Path(__file__).with_name("hog.py")


@contextmanager
def running(kind: str) -> Iterator[tuple[int, control.Agent]]:
    with launched(sys.executable, [str(HOG), kind]) as (process, agent):
        time.sleep(0.3)
        yield process.pid, agent


def beats(agent: control.Agent) -> tuple[float, float]:
    """90th percentiles of lateness inside the program and, at the same time, in a process of its own."""
    process = control.outside_beat(2)
    try:
        inside = [float(late) for late in agent.beat(2)["late_s"]]
    finally:
        outside = control.heard(process)
    return ruleouts.p90(inside), ruleouts.p90(outside)


def test_a_thread_inside_is_late_when_native_code_keeps_the_gil_and_not_when_it_lets_go() -> None:
    with running("held") as (_, agent):
        names = set(agent.threads().values())
        held_s, _ = beats(agent)
    with running("released") as (_, agent):
        # Where processors are short everything is late now and then; three looks, and the control beside each.
        looks = [beats(agent) for _ in range(3)]
    assert {"MainThread", "sender", "probe-gil"} <= names
    assert held_s > 0.04
    assert any(inside_s < 0.03 or inside_s < 3 * outside_s for inside_s, outside_s in looks)


def test_the_holder_is_named_with_the_python_line_that_called_it() -> None:
    with running("held") as (pid, _):
        signals = look(pid, 2.0)
    if signals.spied is None:  # where ptrace is not allowed the reason must say so
        assert "permission" in signals.missing["py-spy"]
        return
    found = spy.holders(signals.spied.stacks)
    assert found[0].thread == "MainThread"
    assert found[0].native
    assert found[0].caller.startswith("hold (hog.py:")


def medians(kind: str) -> tuple[float, float]:
    """Median lateness at the default switch interval and at a short one."""
    with running(kind) as (_, agent):
        before = agent.beat(2)["late_s"]
        default = agent.ask("switch_interval", seconds=ruleouts.SHORT_INTERVAL_S)["before_s"]
        short = agent.beat(2)["late_s"]
        agent.ask("switch_interval", seconds=default)
        assert agent.ask("switch_interval", seconds=default)["before_s"] == default
    return statistics.median(before), statistics.median(short)


def test_a_short_switch_interval_tells_python_code_from_native_code_and_is_put_back() -> None:
    native = [medians("held") for _ in range(2)]
    python = (medians("python") for _ in range(4))
    assert any(short > 0.5 * before for before, short in native)
    assert any(short < 0.7 * before for before, short in python)


def test_the_collector_is_switched_off_for_the_experiment_and_on_again_afterwards() -> None:
    with running("held") as (_, agent):
        told = ruleouts.run(agent, 0.3)
        assert agent.ask("gc", on=True)["before"] is True
    assert [each.alternative for each in told] == [
        "processors too busy", "garbage collection", "Python code that hogs the GIL", "locks of the program",
    ]  # fmt: skip
    assert all(each.experiment and each.sentence and each.samples for each in told)


def test_a_program_that_has_ended_is_a_clear_error(tmp_path: Path) -> None:
    program = tmp_path / "ends.py"
    program.write_text("import time; time.sleep(1); raise SystemExit(3)\n")
    with launched(sys.executable, [str(program)]) as (process, agent):
        process.wait(20)
        with pytest.raises(control.AgentGone, match="does not answer"):
            agent.beat(0.1)
