"""Every command answers in JSON on success and on failure, with the exit code of the table and no traceback."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from simulated.stacks import GOAL, kill_when, run, stack_file

GOOD = {
    "run": ["run", "--stack", "infra-agent.toml", "--goal", GOAL, "--dry-run"],
    "stack show": ["stack", "show", "--stack", "infra-agent.toml", "--params"],
    "playbook list": ["playbook", "list"],
    "playbook show": ["playbook", "show", "serial-admission"],
    "probe list": ["probe", "list"],
    "runs list": ["runs", "list"],
    "init": ["init", "--engine", "openai", "--url", "http://127.0.0.1:9", "--model", "m", "--path", "new.toml"],
}
BAD = {
    "vague goal": (["run", "--goal", "make it better"], 2),
    "no goal": (["run"], 2),
    "unknown option": (["run", "--gaol", GOAL], 2),
    "unknown command": (["tune"], 2),
    "missing goal file": (["run", "--goal", "none.toml"], 2),
    "missing stack file": (["run", "--stack", "none.toml", "--goal", GOAL], 2),
    "bad budget": (["run", "--stack", "infra-agent.toml", "--goal", GOAL, "--budget", "soon"], 2),
    "unknown brain": (["run", "--stack", "infra-agent.toml", "--goal", GOAL, "--brain", "oracle"], 2),
    "script brain without a script": (["run", "--stack", "infra-agent.toml", "--goal", GOAL, "--brain", "script"], 2),
    "no runs to show": (["runs", "show", "last"], 2),
    "no runs to resume": (["runs", "resume", "last"], 2),
    "no runs to verify": (["runs", "verify"], 2),
    "no runs to cancel": (["runs", "cancel"], 2),
    "no runs to report": (["report"], 2),
    "unknown playbook": (["playbook", "show", "serial"], 2),
    "unknown engine": (["init", "--engine", "turbo", "--path", "x.toml"], 2),
    "file exists": (["init", "--engine", "transformers", "--path", "infra-agent.toml"], 2),
    "unknown probe": (["probe", "run", "magic", "--url", "http://127.0.0.1:9", "--model", "m"], 2),
    "address without a scheme": (["probe", "run", "load", "--url", "localhost:8000", "--model", "m"], 2),
    "impossible port": (["probe", "run", "load", "--url", "http://127.0.0.1:99999", "--model", "m"], 2),
    "seed too large": (["run", "--stack", "infra-agent.toml", "--goal", GOAL, "--seed", str(2**53)], 2),
    "directory as a script": (["run", "--stack", "demo", "--goal", GOAL, "--brain", "script", "--script", "."], 2),
    "server that is not there": (["probe", "run", "load", "--url", "http://127.0.0.1:9", "--model", "m"], 1),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cli")
    stack_file(made, {"continuous_batching": [True]})
    return made


@pytest.mark.parametrize("name", GOOD)
def test_success_is_one_json_document_on_stdout(folder: Path, name: str) -> None:
    done = run(folder, *GOOD[name], "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("name", GOOD)
def test_success_for_people_has_no_json_and_no_markup(folder: Path, name: str) -> None:
    args = [word.replace("new.toml", "other.toml") for word in GOOD[name]]
    done = run(folder, *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stdout.startswith("{")


@pytest.mark.parametrize("name", BAD)
def test_failure_is_json_on_stdout_too_with_the_exit_code_of_the_table(folder: Path, name: str) -> None:
    args, code = BAD[name]
    done = run(folder, *args, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == code, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    if "error" in document:
        assert document["error"]["exit_code"] == code
        assert document["error"]["message"]


@pytest.mark.parametrize("name", BAD)
def test_failure_for_people_is_short_and_names_a_next_step(folder: Path, name: str) -> None:
    args, code = BAD[name]
    done = run(folder, *args)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert len((done.stdout + done.stderr).splitlines()) <= 14
    if code == 2:
        assert "error:" in done.stderr


def test_a_vague_goal_is_refused_within_two_seconds_and_says_what_is_missing(folder: Path) -> None:
    best = min(_timed(folder) for _ in range(3))
    done = run(folder, "run", "--stack", "demo", "--goal", "make it better")
    assert best < 2.0
    assert "metric missing" in done.stderr
    assert "target missing" in done.stderr


def test_an_unknown_brain_is_found_before_the_demo_is_prepared(folder: Path, tmp_path: Path) -> None:
    args = ["run", "--stack", "demo", "--goal", GOAL, "--brain", "oracle"]
    done = run(folder, *args, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 2
    assert "no brain 'oracle'" in done.stderr
    assert "Set-up" not in done.stderr
    assert not (tmp_path / "cache").exists()


def test_a_run_refused_before_its_first_event_leaves_no_directory(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text("not json\n")
    stack_file(tmp_path, {"continuous_batching": [True]}, prompts="prompts.jsonl")
    done = run(tmp_path, "run", "--stack", "infra-agent.toml", "--goal", GOAL)
    assert done.returncode == 2
    assert "prompts.jsonl:1" in done.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_a_resume_behind_other_walls_is_refused_and_the_ledger_stays_as_it_was(tmp_path: Path) -> None:
    stack = stack_file(tmp_path, {"continuous_batching": [True]})
    kill_when(tmp_path, ["run", "--stack", str(stack), "--goal", GOAL, "--seed", "3"], "launch", 1)
    ledger = next(tmp_path.glob("runs/*/events.jsonl"))
    before = ledger.read_bytes()
    done = run(tmp_path, "runs", "resume", "last", "--no-sandbox")
    assert done.returncode == 2
    assert "'bubblewrap'" in done.stderr
    assert ledger.read_bytes() == before


def test_the_dry_run_prints_the_goal_with_every_field_of_the_contract(folder: Path) -> None:
    done = run(folder, *GOOD["run"], "--json")
    goal = json.loads(done.stdout)["goal"]
    assert {"metric", "direction", "target", "constraints", "budget_s", "scope"} <= goal.keys()
    assert not (folder / "runs").exists()


def test_a_goal_file_gives_the_same_goal_as_its_sentence(folder: Path) -> None:
    sentence = json.loads(run(folder, *GOOD["run"], "--json").stdout)["goal"]
    lines = [
        'metric = "output_tok_per_s"', 'statistic = "value"', 'direction = "maximise"', "budget_s = 600",
        "[target]", 'kind = "ratio"', "value = 2.0", "[load]", "concurrency = 4",
    ]  # fmt: skip
    (folder / "goal.toml").write_text("\n".join(lines))
    args = ["run", "--stack", "infra-agent.toml", "--goal", "goal.toml", "--dry-run", "--json"]
    from_file = json.loads(run(folder, *args).stdout)["goal"]
    assert {**from_file, "text": ""} == {**sentence, "text": ""}


def test_help_is_there_for_every_command(folder: Path) -> None:
    for args in (["run"], ["runs", "resume"], ["doctor"], ["init"], ["report"], ["stack", "show"], ["probe", "run"]):
        done = run(folder, *args, "--help")
        assert done.returncode == 0
        assert "--json" in done.stdout


def test_every_unknown_key_of_a_stack_file_is_an_error_that_names_the_nearest(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "infra-agent.toml"
    path.write_text((folder / "infra-agent.toml").read_text().replace("warmup_requests", "warmup_request"))
    done = run(folder, "run", "--stack", str(path), "--goal", GOAL, "--dry-run")
    assert done.returncode == 2
    assert "warmup_requests" in done.stderr


def _timed(folder: Path) -> float:
    started = time.monotonic()
    done: subprocess.CompletedProcess[str] = run(folder, "run", "--stack", "demo", "--goal", "make it better")
    assert done.returncode == 2
    return time.monotonic() - started
