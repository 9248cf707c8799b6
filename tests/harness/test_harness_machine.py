"""What machine this is, and who else is using it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness_help import eventually

from infra_agent.harness.machine import busy_neighbours, describe_machine, load_now, usable_cores

BUSY = [sys.executable, "-I", "-S", "-c", "while True: pass"]


def test_the_machine_is_described_in_plain_values() -> None:
    facts = describe_machine()
    assert {"os", "kernel", "cpu", "cores", "memory_bytes", "python"} <= facts.keys()
    assert json.loads(json.dumps(facts)) == facts
    assert 0 < float(facts["cores"]) <= (os.cpu_count() or 1)


def test_a_cgroup_quota_cuts_the_cores(tmp_path: Path) -> None:
    unlimited = usable_cores(tmp_path)
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 0.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == unlimited


def test_an_old_cgroup_quota_cuts_the_cores_too(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    unlimited = usable_cores(tmp_path)
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("25000\n")
    assert usable_cores(tmp_path) == 0.25 < unlimited


def test_a_busy_process_of_somebody_else_is_a_neighbour_and_ours_is_not() -> None:
    # In a session of its own below init it is nobody's child: like another user's program.
    shell = subprocess.run(
        ["/bin/sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", *BUSY], capture_output=True, check=True
    )
    pid = int(shell.stdout)
    try:
        assert eventually(lambda: pid in {neighbour.pid for neighbour in busy_neighbours((), 0.3)})
        assert pid not in {neighbour.pid for neighbour in busy_neighbours((pid,), 0.3)}
        load = load_now(sample_s=0.3)
        assert set(load) == {"load_1min", "load_5min", "busy", "busy_processes"}
    finally:
        os.kill(pid, 9)


def test_children_of_ours_are_not_neighbours() -> None:
    with subprocess.Popen(BUSY) as child:
        assert child.pid not in {neighbour.pid for neighbour in busy_neighbours((), 0.3)}
        child.kill()
