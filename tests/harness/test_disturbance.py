"""Who else was at work, and when that voids a block."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness_help import eventually

from infra_agent.harness import disturbance
from infra_agent.harness.disturbance import Disturbance, Watch, what_disturbed
from infra_agent.harness.machine import Neighbour

BUSY = [sys.executable, "-I", "-S", "-c", "while True: pass"]
QUIET = [0.05, 0.04, 0.06, 0.05]


def signals(cores: float, **more: object) -> dict[str, object]:
    return {"neighbour_cores": cores, **more}


def test_a_hog_that_was_not_there_before_voids_a_window_and_is_named() -> None:
    reason = what_disturbed(signals(1.02, neighbours="stress (pid 9) 99% of a core"), QUIET)
    assert reason.startswith("neighbour: stress (pid 9)")
    assert "1.02 cores where 0.05 are usual" in reason


@pytest.mark.parametrize("cores", [0.0, 0.05, 0.29])
def test_a_little_more_than_usual_voids_nothing(cores: float) -> None:
    assert what_disturbed(signals(cores), QUIET) == ""


def test_what_comes_and_goes_all_the_time_is_usual() -> None:
    restless = [0.2, 1.4, 0.3, 1.6, 0.1, 1.5]
    assert what_disturbed(signals(1.9), restless) == ""
    assert what_disturbed(signals(9.0), restless) != ""


def test_a_throttled_processor_voids_a_window_even_without_history() -> None:
    assert (
        what_disturbed(signals(0.0, throttled="GPU 0 hw thermal slowdown"), [])
        == "throttled: GPU 0 hw thermal slowdown"
    )


def test_without_history_or_figure_there_is_nothing_to_go_by() -> None:
    assert what_disturbed(signals(5.0), []) == ""
    assert what_disturbed({}, QUIET) == ""


def test_signals_hold_what_is_known_and_nothing_else() -> None:
    busy = Neighbour(pid=9, name="stress", cpu_share=0.99)
    assert Disturbance(cores=0.0).signals() == {"neighbour_cores": 0.0}
    full = Disturbance(cores=1.0, busiest=(busy,), throttled="x").signals()
    assert full == {"neighbour_cores": 1.0, "neighbours": "stress (pid 9) 99% of a core", "throttled": "x"}


def test_a_busy_process_of_somebody_else_is_seen_and_ours_is_not() -> None:
    # In a session of its own below init it is nobody's child: like another user's program.
    shell = subprocess.run(
        ["/bin/sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", *BUSY], capture_output=True, check=True
    )
    pid = int(shell.stdout)

    def named(own: tuple[int, ...]) -> set[int]:
        watch = Watch(own)
        time.sleep(0.5)
        return {neighbour.pid for neighbour in watch.seen(own).busiest}

    try:
        assert eventually(lambda: pid in named(()))
        assert pid not in named((pid,))
    finally:
        os.kill(pid, 9)


def test_cpu_time_of_our_own_children_is_ours() -> None:
    with subprocess.Popen(BUSY) as child:
        watch = Watch()
        time.sleep(0.6)
        seen = watch.seen()
        child.kill()
    assert child.pid not in {neighbour.pid for neighbour in seen.busiest}
    assert seen.cores < (os.cpu_count() or 1)


def test_throttle_counters_that_rise_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbance, "SYSFS", tmp_path)
    counter = tmp_path / "cpu0" / "thermal_throttle" / "core_throttle_count"
    counter.parent.mkdir(parents=True)
    counter.write_text("4\n")
    watch = Watch()
    assert watch.seen().throttled == ""
    counter.write_text("5\n")
    assert watch.seen().throttled == "1 CPU throttle counters rose"


def test_a_gpu_that_slows_itself_down_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, Not Active, Active, Not Active'\n")
    smi.chmod(0o755)
    monkeypatch.setattr(disturbance.shutil, "which", lambda name: str(smi))
    assert Watch().seen().throttled == "GPU 0 sw thermal slowdown"
