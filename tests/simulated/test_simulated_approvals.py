"""Whole runs with one routine and one numerics winner: the routine one never waits, the other only for a person."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated.stacks import events_of, report_of, run, stack_file, tune

SPACE = {"continuous_batching": [True], "dtype": ["float32"]}
FAST_FLOAT32 = {"FAKE_FLOAT32": "3.0", "FAKE_GAP_S": "0.012"}
SCRIPT = """
[[action]]
kind = "measure"
probe = "load"
target = "stock"
[[action]]
kind = "propose"
hypothesis = ""
changes = [{ parameter = "dtype", value = "float32" }]
[[action]]
kind = "prove"
candidate = "C1"
[[action]]
kind = "propose"
hypothesis = ""
changes = [{ parameter = "continuous_batching", value = true }]
[[action]]
kind = "prove"
candidate = "C2"
"""


TRIES = 6
"""A busy machine may spoil the windows of a run (client delay); such a run is made again, not believed."""


def command(folder: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    return run(folder, *args, INFRA_AGENT_CONFIG=str(folder / "config"), **more)


def as_json(folder: Path, *args: str) -> Any:
    done = command(folder, *args, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def waiting_run(folder: Path, script: str = "", waits: str = "C2") -> Path:
    """A run of the real command line that ends waiting for a person, and a reviewer's key."""
    stack_file(folder, SPACE, FAST_FLOAT32)
    (folder / "script.toml").write_text(script)
    args = ["--brain", "script", "--script", str(folder / "script.toml")] if script else []
    as_json(folder, "review", "key")
    for _ in range(TRIES):
        done = tune(folder, *args, INFRA_AGENT_CONFIG=str(folder / "config"))
        waiting = [row["candidate"] for row in data_of(folder, "waiting")]
        if done.returncode == 3 and waiting == [waits] and len(data_of(folder, "accepted")) == 1:
            return folder
        shutil.rmtree(folder / "runs")
    raise AssertionError(f"{TRIES} runs did not end waiting for {waits}; the last:\n{done.stdout}{done.stderr}")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """C1 (routine) accepted, C2 (numerics) at its gate; never changed, only copied."""
    return waiting_run(tmp_path_factory.mktemp("waiting"))


def copy_of(template: Path, folder: Path) -> Path:
    """The run and the key in a folder of their own; stack file and model stay where they are."""
    for name in ("runs", "config"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(template / name, folder / name)
    return folder


def sign(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Approve the one change that waits."""
    (row,) = as_json(folder, "review", "list")["waiting"]
    key = str(folder / "config" / "reviewer.key")
    place = f"{row['run']}/{row['candidate']}"
    return command(folder, "review", "approve", place, "--key", key, "--yes-i-reviewed", row["confirm"], **more)


def resumed(
    template: Path, folder: Path, code: int, prepare: Callable[[Path], None]
) -> subprocess.CompletedProcess[str]:
    """The run copied, decided upon and resumed; once more when the machine spoilt its windows."""
    for _ in range(TRIES):
        prepare(copy_of(template, folder))
        done = command(folder, "runs", "resume", "last")
        if done.returncode == code:
            return done
    raise AssertionError(f"{TRIES} resumed runs did not end with {code}; the last:\n{done.stdout}{done.stderr}")


def kinds(folder: Path) -> list[str]:
    return [event["kind"] for event in events_of(folder)]


def data_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event["data"] for event in events_of(folder) if event["kind"] == kind]


def signed(folder: Path) -> None:
    done = sign(folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.requirement("A1")
@pytest.mark.requirement("A3")
def test_a_routine_winner_is_accepted_and_a_numerics_winner_waits_until_a_person_signs(
    template: Path, tmp_path: Path
) -> None:
    copy_of(template, tmp_path)
    assert [row["candidate"] for row in data_of(tmp_path, "accepted")] == ["C1"]
    (row,) = as_json(tmp_path, "review", "list")["waiting"]
    assert (row["candidate"], row["risk"]) == ("C2", "numerics")
    pack = as_json(tmp_path, "review", "show", "last/C2")
    assert pack["estimate"]["low"] > 1
    assert pack["cause"]["kind"] == "cause"
    assert pack["answers"]["verdict"] == "pass"
    assert pack["predicted"] is not None
    assert command(tmp_path, "runs", "resume", "last").returncode == 3
    signed(tmp_path)
    assert as_json(tmp_path, "runs", "list")["runs"][0]["status"] == "decided"


def test_after_the_approval_the_resumed_run_relaunches_the_change_and_meets_its_goal(
    template: Path, tmp_path: Path
) -> None:
    done = resumed(template, tmp_path, 0, signed)
    report = report_of(tmp_path)
    assert "Goal met" in done.stdout
    assert report["outcome"]["met"]
    assert report["final"]["candidate"] == report["best"]["candidate"] == "C2"
    by = report["accepted"][1]["approvals"][0]
    assert by["fingerprint"].startswith("SHA256:")
    assert by["fingerprint"] in report["accepted"][1]["gate"]
    assert report["decisions"] == []
    finals = [block for block in data_of(tmp_path, "block") if block["stage"] == "final"]
    seeds = {id: {b["seed"] for b in finals if b["candidate"] == id} for id in ("C1", "C2")}
    assert seeds["C1"]
    assert seeds["C2"]
    assert not seeds["C1"] & seeds["C2"]
    assert command(tmp_path, "runs", "verify", "last").returncode == 0
    assert command(tmp_path, "runs", "resume", "last").returncode == 2


def test_after_a_rejection_the_run_concludes_without_the_change(template: Path, tmp_path: Path) -> None:
    said = "float32 doubles the memory of the weights"

    def reject(folder: Path) -> None:
        assert command(folder, "review", "reject", "last/C2", "--reason", said).returncode == 0

    resumed(template, tmp_path, 0, reject)
    report = report_of(tmp_path)
    assert [row["candidate"] for row in report["accepted"]] == ["C1"]
    assert {row["id"]: row["end"] for row in report["candidates"]}["C2"] == "declined"
    assert report["people"][0]["reason"] == said
    assert said in (next((tmp_path / "runs").iterdir()) / "report.html").read_text()
    assert [row["name"] for row in data_of(tmp_path, "phase")].count("tuning") == 1
    assert command(tmp_path, "runs", "verify", "last").returncode == 0


@pytest.fixture(scope="module")
def on_stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """C1 (numerics) proved on stock and waiting; C2 (routine), proved on stock after it, is the best."""
    return waiting_run(tmp_path_factory.mktemp("on_stock"), SCRIPT, "C1")


def test_after_asking_for_changes_the_brain_goes_on_with_what_is_left(on_stock: Path, tmp_path: Path) -> None:
    def ask(folder: Path) -> None:
        done = command(folder, "review", "request-changes", "last/C1", "--reason", "with bfloat16, please")
        assert done.returncode == 0

    resumed(on_stock, tmp_path, 0, ask)
    phases = [row["name"] for row in data_of(tmp_path, "phase")]
    assert phases.count("tuning") == 2
    assert phases[phases.index("done") + 1] == "tuning"
    assert report_of(tmp_path)["people"][0]["decision"] == "request_changes"
    assert command(tmp_path, "runs", "verify", "last").returncode == 0


def test_a_change_approved_on_an_older_base_is_proved_again_on_the_best_and_asked_again(
    on_stock: Path, tmp_path: Path
) -> None:
    copy_of(on_stock, tmp_path)
    pack = as_json(tmp_path, "review", "show", "last/C1")
    assert (pack["base"], pack["best"], pack["stands_on_best"]) == ("stock", "C2", False)
    assert "asks again about the two together" in pack["effect"]
    together = tmp_path / "together"
    together.mkdir()
    resumed(on_stock, together, 3, signed)
    proposed = next(row for row in data_of(together, "candidate") if row["id"] == "C3")
    assert (proposed["base"], proposed["settings"]) == ("C2", {"continuous_batching": True, "dtype": "float32"})
    resumed(together, tmp_path, 0, signed)
    assert report_of(tmp_path)["best"]["candidate"] == "C3"
    assert command(tmp_path, "runs", "verify", "last").returncode == 0


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("moment", ["after", *(pytest.param(m, marks=pytest.mark.slow) for m in ("before", "torn"))])
def test_an_approval_killed_half_way_is_finished_by_the_resumed_run(
    template: Path, tmp_path: Path, moment: str
) -> None:
    seq = len(events_of(template)) + (2 if moment == "before" else 1)

    def kill(folder: Path) -> None:
        assert sign(folder, INFRA_AGENT_CRASH_AT=f"{seq}:{moment}").returncode == -9

    resumed(template, tmp_path, 0, kill)
    assert kinds(tmp_path).count("approved") == 1
    assert [row["candidate"] for row in data_of(tmp_path, "accepted")] == ["C1", "C2"]
    assert report_of(tmp_path)["best"]["candidate"] == "C2"
    assert command(tmp_path, "runs", "verify", "last").returncode == 0


@pytest.mark.requirement("A2")
def test_what_was_approved_is_resumed_and_served_only_while_it_is_what_was_approved(
    template: Path, tmp_path: Path
) -> None:
    signed(copy_of(template, tmp_path))
    config = template / "model" / "config.json"
    before = config.read_text()
    try:
        config.write_text("[]")
        done = command(tmp_path, "runs", "resume", "last", "--json")
        served = command(tmp_path, "stack", "up", "--stack", str(template / "infra-agent.toml"), "--json")
    finally:
        config.write_text(before)
    assert done.returncode == served.returncode == 2
    assert json.loads(done.stdout)["error"]["message"].startswith("approval refused: stack digest")
