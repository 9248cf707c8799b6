"""The judge's side is out of the candidate's reach: its code, its ledger, its expected answers, its clock."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from harness_help import eventually

import infra_agent
import probes
from infra_agent.harness.command import run_command
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls

pytestmark = pytest.mark.requirement("E5")
NEEDED_INSIDE = ("infra_agent/harness/inject/", "infra_agent/harness/inside.py", "probes/net/connector.py")
"""What a launch itself runs inside: the in-process reporter and the first program. They hold no judgement."""
ROOTS = [Path(infra_agent.__file__).parent, Path(probes.__file__).parent]
ATTEMPT = """
import json, os, sys
found = {"read": [], "written": [], "listed": []}
paths = json.loads(open("paths.json").read())
for path in paths["files"]:
    try:
        with open(path, "rb") as file:
            file.read(1)
        found["read"].append(path)
    except OSError:
        pass
    # Opened for writing is enough: were a wall to fall, this test must not be what damages the house.
    # (A mode that makes the file would only write to the sandbox's own memory.)
    try:
        open(path, "r+b").close()
        found["written"].append(path)
    except OSError:
        pass
for folder in paths["folders"]:
    try:
        found["listed"] += [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        pass
    try:
        with open(os.path.join(folder, "candidate-was-here"), "w") as file:
            file.write("x")
    except OSError:
        pass
print("FOUND " + json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def walled() -> Walls:
    return hold_walls(no_sandbox=False)


@pytest.fixture
def secrets(tmp_path: Path) -> list[Path]:
    """A run's ledger, answers and report beside the launch's scratch directory."""
    run_dir = tmp_path / "runs" / "01M8Q3D7SJQTKK6ADHNWJKB94N"
    names = ("events.jsonl", "artifacts/" + "a" * 64, "report.json", "goal.toml", "stack.toml", "writer.pid")
    for name in names:
        path = run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the expected answers")
    return [run_dir / name for name in names]


def sources() -> list[Path]:
    """Every source file of the harness and the probes that no launch needs."""
    found = [path for root in ROOTS for path in root.rglob("*.py")]
    needed = [path for path in found if any(part in path.as_posix() for part in NEEDED_INSIDE)]
    return sorted(set(found) - set(needed))


def scratch_of(secrets: list[Path]) -> Path:
    """The launch's own directory, inside the run's, with the list of what to try: no argument names it."""
    scratch = secrets[0].parent / "scratch" / "L1"
    scratch.mkdir(parents=True)
    files = [str(path) for path in [*sources(), *secrets]]
    folders = sorted({str(path.parent) for path in [*sources(), *secrets]})
    (scratch / "paths.json").write_text(json.dumps({"files": files, "folders": folders}))
    return scratch


def judged(output: str) -> dict[str, Any]:
    line = next(line for line in output.splitlines() if line.startswith("FOUND "))
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


def check(found: dict[str, Any], secrets: list[Path], before: dict[Path, bytes]) -> None:
    assert found["read"] == []
    assert found["written"] == []
    # Directories above the scratch exist inside, and hold nothing but the way to it.
    way = secrets[0].parent
    assert [path for path in found["listed"] if Path(path) not in (way / "scratch", way / "candidate-was-here")] == []
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in [*ROOTS, way] if list(path.rglob("candidate-was-here"))]


def test_a_command_can_neither_read_nor_write_the_judges_side(walled: Walls, secrets: list[Path]) -> None:
    scratch = scratch_of(secrets)
    before = {path: path.read_bytes() for path in [*sources(), *secrets]}
    env = {"PATH": os.defpath, "HOME": str(scratch)}
    argv = [sys.executable, "-I", "-S", "-c", ATTEMPT]
    found = run_command(argv, walls=walled, cwd=scratch, env=env, timeout_s=60, writable=[scratch], keep_bytes=1 << 20)
    assert found.ok, found.stderr.text()
    check(judged(found.stdout.text()), secrets, before)


def test_an_engine_can_neither_read_nor_write_the_judges_side(walled: Walls, secrets: list[Path]) -> None:
    scratch = scratch_of(secrets)
    before = {path: path.read_bytes() for path in [*sources(), *secrets]}
    log = scratch.parent.parent / "engine.log"
    process = ManagedProcess.start(
        [sys.executable, "-I", "-S", "-c", ATTEMPT], env={"PATH": os.defpath, "HOME": str(scratch)}, cwd=scratch,
        log_path=log, walls=walled, writable=[scratch],
    )  # fmt: skip
    try:
        assert eventually(lambda: not process.alive())
    finally:
        process.stop(5)
    check(judged(log.read_text()), secrets, before)


def test_the_attempt_would_succeed_without_walls(tmp_path: Path) -> None:
    """The test above can fail: the same code reads and writes what it may."""
    open_to_all = tmp_path / "open.txt"
    open_to_all.write_text("x")
    (tmp_path / "paths.json").write_text(json.dumps({"files": [str(open_to_all)], "folders": [str(tmp_path)]}))
    env = {"PATH": os.defpath, "HOME": str(tmp_path)}
    argv = [sys.executable, "-I", "-S", "-c", ATTEMPT]
    done = run_command(argv, walls=NO_WALLS, cwd=tmp_path, env=env, timeout_s=60)
    found = judged(done.stdout.text())
    assert found["read"] == [str(open_to_all)]
    assert found["written"] == [str(open_to_all)]
    assert (tmp_path / "candidate-was-here").exists()
