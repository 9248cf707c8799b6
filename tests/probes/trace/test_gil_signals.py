"""Parsing and fusing of signals, on recorded and made-up ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from probes.trace.gil import control, fuse, kernel, spy, waits
from probes.trace.gil.look import Signals, look
from probes.trace.gil.ruleouts import RuleOut

PYBIND = (
    "pybind11::cpp_function::dispatcher (pybind11.h:1236);"
    "pybind11::detail::argument_loader<kv::Buffer*, long>::call (cast.h:2168)"
)
LAYER = "<module> (engine.py:263);Engine._layer (engine.py:196)"
BINDING = "kv::Buffer::intranode_dispatch (wire.cpp:53);kv::Buffer::check_timeout (wire.cpp:104)"
RECORDED = f"""\
thread (15653): MainThread;0x7f (libc.so.6);{LAYER};{PYBIND};{BINDING} 120
thread (15653): MainThread;<module> (engine.py:263);Engine._layer (engine.py:198) 20
thread (0x7F3C): kv-transfer;Transfer._send (engine.py:109);sock_sendall (socketmodule.c:4239) 10
not a stack
"""


def signals(**changes: object) -> Signals:
    late = [0.006] * 50
    found = Signals(
        pid=100, seconds=2.0, spied=spy.Spied(stacks=tuple(spy.parse(RECORDED)), taken=400, seconds=2.0),
        gil_waits_s={100: [1e-6] * 500, 101: [2e-6] * 300 + [0.004] * 250},
        threads={100: "MainThread", 101: "kv-transfer"},
        tasks=[
            kernel.Task(tid=101, name="python", waits={"futex_do_wait": 0.7}, run_delay_share=0.0, running_share=0.1)
        ],
        late_s=late, outside_late_s=[0.0001] * 50, contention=0.8,
    )  # fmt: skip
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_the_holder_is_the_extensions_own_function_not_the_binding_librarys() -> None:
    first = spy.holders(spy.parse(RECORDED))[0]
    assert (first.thread, first.function, first.file, first.line) == (
        "MainThread", "kv::Buffer::intranode_dispatch", "wire.cpp", 53,
    )  # fmt: skip
    assert first.caller == "Engine._layer (engine.py:196)"
    assert first.native
    assert first.share == pytest.approx(0.8)


def test_a_stripped_extension_is_named_by_its_file_and_said_to_have_no_line() -> None:
    stacks = spy.parse("thread (1): MainThread;f (a.py:1);0x7f98c534f888 (kv_wire.so) 100")
    found = signals(spied=spy.Spied(stacks=tuple(stacks), taken=400, seconds=2.0))
    observation = fuse.observe(found)
    assert "kv_wire.so, no line: stripped" in observation.summary


def test_signals_that_agree_are_fused_into_holder_victim_and_high_confidence() -> None:
    observation = fuse.observe(signals())
    assert observation.verdict == "fail"
    assert observation.where.file == "wire.cpp"
    assert observation.where.line == 53
    assert observation.where.thread == "kv-transfer"
    assert observation.signals["confidence"] == "high"
    assert observation.signals["gil_victim"] == "kv-transfer"
    rate = observation.quantity("gil_waits_per_s")
    assert rate is not None
    assert rate.value == pytest.approx(125)
    assert observation.detail["victim"]["p99_s"] == pytest.approx(0.004)
    assert "cause" not in observation.signals


def test_one_signal_alone_is_never_sure() -> None:
    alone = signals(gil_waits_s={}, tasks=[], late_s=[], outside_late_s=[], contention=None)
    observation = fuse.observe(alone)
    assert observation.signals["confidence"] == "low"
    assert observation.verdict != "fail"


def test_late_because_processors_are_short_does_not_speak_for_the_gil() -> None:
    said = fuse.votes(signals(outside_late_s=[0.005] * 50), None, None)
    assert said["heartbeat"] is False


def test_nobody_waits_and_nothing_holds_is_a_pass() -> None:
    idle = signals(
        spied=spy.Spied(stacks=(), taken=400, seconds=2.0), gil_waits_s={101: [1e-6] * 50}, late_s=[0.0001] * 50,
        contention=0.01, tasks=[],
    )  # fmt: skip
    observation = fuse.observe(idle)
    assert observation.verdict == "pass"
    assert observation.where.whole_system


def test_nothing_could_be_seen_is_inconclusive_with_the_reasons() -> None:
    blind = Signals(pid=1, seconds=1.0, missing={"py-spy": "no permission to look into process 1"})
    observation = fuse.observe(blind)
    assert observation.verdict == "inconclusive"
    assert "no permission" in observation.summary
    assert observation.quantities == ()


def test_rule_outs_are_facts_that_playbooks_can_match() -> None:
    ruled = RuleOut(
        alternative="garbage collection", experiment="e", before_s=0.01, after_s=0.01, restored_s=0.01, samples=9,
        ruled_out=True, sentence="s",
    )  # fmt: skip
    assert fuse.observe(signals(ruled=[ruled])).signals["ruled_out.garbage_collection"] == "yes"


def test_waits_are_paired_by_thread_and_a_lost_return_is_dropped() -> None:
    text = (
        "  11   100.000001: gil5:take: (7f)\n  12   100.000002: gil5:take: (7f)\n"
        "  12   100.004002: gil5:took__return: (7f <- 7f) arg1=0x0\n  11   100.500001: gil5:take: (7f)\n"
        "  11   100.500003: gil5:took__return: (7f <- 7f)\nnonsense\n"
    )
    found = waits.paired(text)
    assert found[12] == [pytest.approx(0.004)]
    assert found[11] == [pytest.approx(2e-6, abs=1e-9)]


def gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_process_that_is_gone_is_said_to_be_gone_by_every_signal() -> None:
    found = look(gone(), 1.0)
    assert set(found.missing) >= {"py-spy", "wait channels", "heartbeat"}
    assert "is gone" in found.missing["py-spy"]
    assert "is gone" in found.missing["wait channels"]
    assert fuse.observe(found).verdict == "inconclusive"


def test_a_process_without_python_is_a_clear_message() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(spy.CannotSpy, match=r"no Python that py-spy knows|no permission"):
            spy.record(process.pid, 1.0)
    finally:
        process.kill()
        process.wait()


def test_refusals_of_the_tools_become_reasons() -> None:
    assert "ptrace" in spy._why(os.getpid(), "Permission Denied: Try running again with elevated permissions")
    assert "stripped" in spy._why(os.getpid(), "Error: Failed to find python version from target process")


def test_an_agent_that_is_not_there_is_a_clear_error(tmp_path: object) -> None:
    with pytest.raises(control.AgentGone, match="does not answer"):
        control.Agent(path=__import__("pathlib").Path(str(tmp_path)) / "none").threads()


def test_the_command_line_wants_a_process_or_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "probes.trace.gil"], capture_output=True, text=True, timeout=60)
    dead = subprocess.run(
        [sys.executable, "-m", "probes.trace.gil", "--pid", str(gone())], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == dead.returncode == 2
    assert "--pid" in done.stderr
    assert "is gone" in dead.stderr
