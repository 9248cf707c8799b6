"""The noise floor from the command line: measured, kept, told, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from simulated.stacks import COMMAND, GOAL, attached_stack_file, events_of, report_of, run, stack_file, tune

BATCHING = {"continuous_batching": [True]}
SMALL = "at 4 concurrent requests, raise output tokens per second by 0.2 % within 10 minutes"


def test_the_noise_is_measured_once_kept_and_said_before_a_run_spends_anything(tmp_path: Path) -> None:
    state = {"INFRA_AGENT_STATE": str(tmp_path / "state")}
    stack_file(tmp_path, BATCHING)
    done = run(tmp_path, "doctor", "--noise", "--json", **state)
    document = json.loads(done.stdout)
    assert (document["launches"], document["blocks"]) == (12, 6)
    assert document["mde_ratio"] > 1
    assert Path(document["stored"]).is_relative_to(tmp_path / "state")
    proved = {row["ratio"]: row["minutes"] for row in document["effects"]}
    assert proved[2.0] is not None

    refused = tune(tmp_path, goal=SMALL, **state)
    report = report_of(tmp_path)
    assert refused.returncode == 1, refused.stderr
    assert "Cannot prove 0.2 % here in 10 min; can prove" in report["outcome"]["sentence"]
    assert report["candidates"] == []
    assert report["noise"]["source"] == "calibrated"
    told = [line for line in refused.stderr.splitlines() if "Noise" in line]
    assert f"A/A of {document['measured_at'][:10]}" in told[0]
    assert refused.stderr.index("A/A of") < refused.stderr.index("Baseline")


def test_a_floor_of_another_workload_is_not_used(tmp_path: Path) -> None:
    state = {"INFRA_AGENT_STATE": str(tmp_path / "state")}
    stack_file(tmp_path, BATCHING)
    measured = run(tmp_path, "doctor", "--noise", **state)
    # Other work on this machine is a finding of its own, with exit code 1; the suite's other half is such work.
    assert measured.returncode == int("NO neighbours" in measured.stdout), measured.stdout + measured.stderr
    assert str(tmp_path / "state") in measured.stdout
    stack_file(tmp_path, BATCHING, max_tokens=6)
    done = tune(tmp_path, "--budget", "20s", **state)
    assert "not measured here yet" in done.stderr


def test_a_goal_is_calibrated_for_its_own_load_and_metric(tmp_path: Path) -> None:
    state = {"INFRA_AGENT_STATE": str(tmp_path / "state")}
    stack_file(tmp_path, BATCHING, requests=6, max_tokens=4)
    goal = "halve the p50 TTFT at 2 concurrent requests"
    document = json.loads(run(tmp_path, "doctor", "--noise", "--goal", goal, "--json", **state).stdout)
    assert document["metric"] == "ttft_p50_s"
    assert "calibrated" not in run(tmp_path, "doctor", "--goal", goal, "--json", **state).stdout


def test_a_goal_without_noise_is_a_usage_error(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING)
    done = run(tmp_path, "doctor", "--goal", "double the throughput")
    assert done.returncode == 2
    assert "--noise" in done.stderr


def test_the_launch_noise_of_an_attached_server_cannot_be_measured(tmp_path: Path) -> None:
    attached_stack_file(tmp_path, "http://127.0.0.1:9")
    done = run(tmp_path, "doctor", "--noise", "--json", INFRA_AGENT_STATE=str(tmp_path / "state"))
    assert done.returncode in (2, 6)
    assert not (tmp_path / "state").exists()


def test_a_state_directory_that_cannot_be_written_is_a_plain_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    stack_file(tmp_path, BATCHING, requests=4, max_tokens=2)
    done = run(tmp_path, "doctor", "--noise", INFRA_AGENT_STATE=str(tmp_path / "state"))
    assert done.returncode == 2
    assert "INFRA_AGENT_STATE" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_hog_started_in_the_middle_voids_a_block_and_the_verdict_stays(tmp_path: Path) -> None:
    """On a machine that is otherwise quiet: the hog must be what changes."""
    path = stack_file(tmp_path, BATCHING, {"FAKE_GAP_S": "0.01"}, neighbours="void")
    command = [*COMMAND, "run", "--stack", str(path), "--goal", GOAL, "--seed", "3"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _until(process, lambda: len(_blocks(tmp_path)) >= 1)
        hogs = [_hog() for _ in range(os.cpu_count() or 1)]
        try:
            _until(process, lambda: any(block["reason"].startswith("neighbour") for block in _blocks(tmp_path)))
        finally:
            for pid in hogs:
                os.kill(pid, 9)
        process.wait(timeout=240)
    blocks = _blocks(tmp_path)
    assert [block for block in blocks if not block["valid"]]
    assert {row["decision"] for row in report_of(tmp_path)["verdicts"] if row["candidate"] == "C1"} == {"accepted"}


def _hog() -> int:
    """A busy process that is nobody's child, like another user's program."""
    busy = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    shell = subprocess.run(
        ["/bin/sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", *busy], capture_output=True, check=True
    )
    return int(shell.stdout)


def _blocks(folder: Path) -> list[dict[str, object]]:
    if not list((folder / "runs").glob("*/events.jsonl")):
        return []
    return [event["data"] for event in events_of(folder) if event["kind"] == "block"]


def _until(process: subprocess.Popen[bytes], holds: object) -> None:
    deadline = time.monotonic() + 120
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
