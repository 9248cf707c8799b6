"""Whole runs of the real command line on a simulated engine: every kind of end a candidate or a run can have."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from simulated.stacks import events_of, kill_when, report_of, run, stack_file, tune

BATCHING = {"continuous_batching": [True]}
SAME = "at 4 concurrent requests, double the output tokens per second without changing the answers within 10 minutes"


def verdicts(report: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {row["candidate"]: (row["decision"], row["cause"]) for row in report["verdicts"]}


def kinds(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event["data"] for event in events_of(folder) if event["kind"] == kind]


def test_a_real_gain_is_accepted_relaunched_on_fresh_seeds_and_beaten_by_nothing(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING)
    done = tune(tmp_path, goal=SAME)
    report = report_of(tmp_path)
    assert done.returncode == 0, done.stderr
    assert verdicts(report)["C1"] == ("accepted", "proved")
    estimate = report["accepted"][0]["estimate"]
    assert estimate["low"] > 1.0
    assert estimate["ratio"] > 2.0
    assert not set(report["final"]["seeds"]) & set(report["search"]["seeds"])
    assert report["honesty_row"]["decision"] in ("accepted", "nothing found")
    assert "Goal met" in done.stdout


def test_a_flag_that_is_accepted_and_ignored_never_reaches_the_load_rung(tmp_path: Path) -> None:
    stack_file(tmp_path, {"compile": [True], "attn_implementation": ["sdpa"]})
    done = tune(tmp_path)
    report = report_of(tmp_path)
    assert done.returncode == 1, done.stderr
    assert set(verdicts(report).values()) == {("invalid", "not_engaged")}
    windows = [row for row in kinds(tmp_path, "observation") if row["candidate"] in ("C1", "C2")]
    assert windows
    assert not [row for row in windows if row["observation"]["probe"] == "load"]


def test_changed_answers_end_the_climb_before_any_timing(tmp_path: Path) -> None:
    stack_file(tmp_path, {"attn_implementation": ["eager"]})
    done = tune(tmp_path, goal=SAME)
    assert done.returncode == 1, done.stderr
    assert verdicts(report_of(tmp_path))["C1"][1] == "answers_changed"
    observed = [row for row in kinds(tmp_path, "observation") if row["candidate"] == "C1"]
    assert "load" not in {row["observation"]["probe"] for row in observed}


def test_a_candidate_that_dies_is_recorded_with_its_last_log_lines_and_the_run_goes_on(tmp_path: Path) -> None:
    stack_file(tmp_path, {"omp_num_threads": [4], **BATCHING})
    done = tune(tmp_path)
    report = report_of(tmp_path)
    ends = sorted(verdicts(report).values())
    assert done.returncode == 0, done.stderr
    assert ("invalid", "crashed") in ends
    assert ("accepted", "proved") in ends
    died = [row for row in kinds(tmp_path, "launch_ended") if row["outcome"] == "died"]
    assert "too many threads" in " ".join(died[0]["last_lines"])


def test_a_slower_candidate_is_rejected_at_the_screen(tmp_path: Path) -> None:
    stack_file(tmp_path, {"omp_num_threads": [1]})
    assert tune(tmp_path).returncode == 1
    assert verdicts(report_of(tmp_path))["C1"] == ("rejected", "slower")
    assert not kinds(tmp_path, "block")


def test_saying_less_is_not_faster(tmp_path: Path) -> None:
    stack_file(tmp_path, {"cb_max_batch_tokens": [64]})
    assert tune(tmp_path).returncode == 1
    reason = report_of(tmp_path)["verdicts"][0]["reason"]
    assert verdicts(report_of(tmp_path))["C1"][0] == "invalid", reason


def test_a_fast_numerics_change_waits_for_a_person(tmp_path: Path) -> None:
    stack_file(tmp_path, {"dtype": ["float32"]}, {"FAKE_FLOAT32": "3.0"})
    done = tune(tmp_path)
    report = report_of(tmp_path)
    assert done.returncode == 3, done.stderr
    assert report["outcome"]["code"] == "waiting"
    assert not report["accepted"]
    assert report["decisions"][0]["risk"] == "numerics"


def test_an_infeasible_candidate_is_rejected_however_fast(tmp_path: Path) -> None:
    goal = "double the output tokens per second at 4 concurrent requests with p50 TTFT under 50 ms within 10 minutes"
    stack_file(tmp_path, BATCHING, {"FAKE_GAP_S": "0.06"})
    done = tune(tmp_path, goal=goal)
    assert done.returncode == 1, done.stderr
    assert verdicts(report_of(tmp_path))["C1"] == ("rejected", "infeasible")


def test_stock_that_cannot_start_ends_the_run_with_the_engines_own_words(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, {"FAKE_FAULT": "die-at-start"})
    done = tune(tmp_path, "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 6
    assert "this model cannot be loaded" in " ".join(error["lines"])
    assert "Traceback" not in done.stderr


def test_a_budget_that_is_too_small_ends_the_run_in_time_with_exit_4(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING, {"FAKE_GAP_S": "0.02"})
    done = tune(tmp_path, "--budget", "6s")
    report = report_of(tmp_path)
    assert done.returncode == 4, done.stderr
    assert report["outcome"]["code"] == "budget_spent"


def test_noise_is_not_called_a_gain(tmp_path: Path) -> None:
    stack_file(tmp_path, {"dtype": ["float32"]}, {"FAKE_FLOAT32": "1.0"})
    done = tune(tmp_path)
    assert done.returncode == 1, done.stderr
    assert verdicts(report_of(tmp_path))["C1"][0] in ("rejected", "inconclusive")


@pytest.mark.parametrize(("kind", "count"), [("observation", 1), ("block", 2)])
def test_a_run_killed_in_real_time_is_resumed_to_the_same_end_and_leaves_no_engine(
    tmp_path: Path, kind: str, count: int
) -> None:
    stack = stack_file(tmp_path, BATCHING)
    args = ["run", "--stack", str(stack), "--goal", SAME, "--seed", "3"]
    assert kill_when(tmp_path, args, kind, count) == -signal.SIGKILL
    resumed = run(tmp_path, "runs", "resume", "last")
    report = report_of(tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert verdicts(report)["C1"] == ("accepted", "proved")
    assert report["run"]["sessions"] == 2
    assert run(tmp_path, "runs", "verify", "last").returncode == 0
    assert not _engines(tmp_path)


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    stack = stack_file(tmp_path, BATCHING)
    args = ["run", "--stack", str(stack), "--goal", SAME, "--seed", "3"]
    assert kill_when(tmp_path, args, "block", 1, signal.SIGINT) == 130
    listed = json.loads(run(tmp_path, "runs", "list", "--json").stdout)["runs"]
    assert listed[0]["status"] == "interrupted"
    assert not _engines(tmp_path)
    assert run(tmp_path, "runs", "resume", "last").returncode == 0
    again = run(tmp_path, "runs", "resume", "last")
    assert again.returncode == 2
    assert "has ended" in again.stderr


def test_an_interrupted_run_can_be_cancelled_and_shown(tmp_path: Path) -> None:
    stack = stack_file(tmp_path, BATCHING)
    args = ["run", "--stack", str(stack), "--goal", SAME, "--seed", "3"]
    kill_when(tmp_path, args, "screened", 1)
    assert run(tmp_path, "runs", "cancel", "last").returncode == 0
    assert "Cancelled" in run(tmp_path, "runs", "show", "last").stdout
    assert run(tmp_path, "runs", "resume", "last").returncode == 2


def test_one_changed_byte_of_the_ledger_is_found_and_the_event_named(tmp_path: Path) -> None:
    stack_file(tmp_path, {"compile": [True]})
    tune(tmp_path)
    assert run(tmp_path, "runs", "verify", "last").returncode == 0
    ledger = next((tmp_path / "runs").glob("*/events.jsonl"))
    lines = ledger.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"ts":"2', b'"ts":"3', 1)
    ledger.write_bytes(b"".join(lines))
    done = run(tmp_path, "runs", "verify", "last")
    assert done.returncode == 1
    assert "event 5" in done.stdout


def test_the_scripted_brain_plays_its_file_and_the_plain_search_works_as_a_brain(tmp_path: Path) -> None:
    stack_file(tmp_path, BATCHING)
    script = tmp_path / "script.toml"
    script.write_text(
        '[[action]]\nkind = "measure"\nprobe = "load"\ntarget = "stock"\n'
        '[[action]]\nkind = "propose"\nhypothesis = ""\nbase = "best"\n'
        'changes = [{ parameter = "continuous_batching", value = true }]\n'
        '[[action]]\nkind = "prove"\ncandidate = "C1"\n'
    )
    scripted = tune(tmp_path, "--brain", "script", "--script", str(script))
    assert scripted.returncode == 0, scripted.stderr
    searched = tune(tmp_path, "--brain", "search", "--budget", "40s")
    assert searched.returncode == 0, searched.stderr


def _engines(folder: Path) -> list[str]:
    mark = str(folder)
    return [
        p.name() for p in psutil.process_iter() if mark in " ".join(_command_line(p)) and "serve" in _command_line(p)
    ]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
