"""Ceilings of whole runs: refused before anything is spent, counted over sessions, shown in the report."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from simulated.stacks import GOAL, events_of, kill_when, report_of, run, stack_file, tune

pytestmark = [pytest.mark.requirement("B1"), pytest.mark.timeout(600)]
BATCHING = {"continuous_batching": [True]}
SCRIPT = (
    '[[action]]\nkind = "measure"\nprobe = "load"\ntarget = "stock"\n'
    '[[action]]\nkind = "propose"\nhypothesis = ""\nbase = "best"\n'
    'changes = [{ parameter = "continuous_batching", value = true }]\n'
    '[[action]]\nkind = "prove"\ncandidate = "C1"\n'
)


def calm(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`tune`, again when this machine was too busy for the first window to be valid (exit 6)."""
    for _ in range(5):
        done = tune(folder, *args)
        if done.returncode != 6:
            break
        shutil.rmtree(folder / "runs")
    return done


def launches(folder: Path) -> int:
    return sum(event["kind"] == "launch" for event in events_of(folder))


def spent(folder: Path) -> dict[str, Any]:
    return {row["kind"]: row for row in report_of(folder)["cost"]["spent"]}


def test_a_brain_that_spends_without_looking_is_stopped_at_the_ceiling_of_launches(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING)
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    done = calm(tmp_path, "--brain", "script", "--script", str(script), "--max-launches", "4")
    assert done.returncode == 4, done.stderr
    assert "another launch needs up to 1 launch, and 0 of 4 are left" in done.stderr
    assert launches(tmp_path) == 4
    assert spent(tmp_path)["launches"] == {"kind": "launches", "spent": 4.0, "cap": 4.0, "open": 0.0}
    assert report_of(tmp_path)["outcome"]["code"] == "budget_spent"


def test_the_playbook_keeps_launches_back_for_the_proof_and_the_honesty_row(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True], "compile": [True]})
    done = calm(tmp_path, "--max-launches", "8")
    assert done.returncode == 4, done.stderr
    assert "no budget left for another candidate" in json.dumps(events_of(tmp_path))
    assert launches(tmp_path) <= 8


def test_what_a_launch_may_leave_on_disk_is_set_aside_before_it_starts(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING)
    done = tune(tmp_path, "--max-disk", "10MB")
    assert done.returncode == 4
    assert "another launch needs up to 41.9 MB of disk, and 10 MB of 10 MB are left" in done.stderr
    assert launches(tmp_path) == 0
    assert spent(tmp_path)["disk_bytes"]["spent"] == 0.0


def test_a_goal_in_words_and_the_command_line_set_ceilings_and_the_command_line_wins(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING)
    goal = f"{GOAL}, at most 3 launches and $2"
    shown = run(tmp_path, "run", "--goal", goal, "--max-usd", "0.5", "--dry-run", "--json")
    assert json.loads(shown.stdout)["goal"]["budget"] == {
        "usd": 0.5, "tokens": None, "launches": 3, "disk_bytes": None, "turns": None, "gpu_s": None,
    }  # fmt: skip
    assert "at most 0.50 USD · at most 3 launches" in json.loads(shown.stdout)["understood"]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--max-usd", "0"], "--max-usd"),
        (["--max-usd", "nan"], "--max-usd"),
        (["--max-tokens", "-1"], "--max-tokens"),
        (["--max-launches", "0"], "--max-launches"),
        (["--max-disk", "much"], "--max-disk"),
        (["--max-disk", "0"], "--max-disk"),
        (["--price", "1"], "--price"),
        (["--price-input", "1", "--price-output", "2"], "--price"),
    ],
)
def test_what_is_no_ceiling_and_a_price_without_effect_are_refused(tmp_path: Path, args: list[str], named: str) -> None:
    done = run(tmp_path, "run", "--goal", GOAL, "--dry-run", "--json", *args)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["where"] == named


def test_a_launch_that_was_killed_counts_after_the_resume_and_the_report_says_so(tmp_path: Path) -> None:
    stack = stack_file(tmp_path, BATCHING)
    args = ["run", "--stack", str(stack), "--goal", GOAL, "--seed", "3", "--max-launches", "60"]
    assert kill_when(tmp_path, args, "launch", 1) == -signal.SIGKILL
    done = run(tmp_path, "runs", "resume", "last", timeout_s=500)
    assert done.returncode in (0, 1, 4, 6), done.stderr
    assert launches(tmp_path) > 1
    row = spent(tmp_path)["launches"]
    assert row["spent"] == launches(tmp_path)
    assert row["open"] == 1.0
    assert row["cap"] == 60.0
    page = next((tmp_path / "runs").glob("*/report.html")).read_text()
    assert "set aside by a session that was killed" in page
    assert run(tmp_path, "runs", "verify", "last").returncode == 0
