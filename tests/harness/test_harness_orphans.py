"""Nothing outlives its command or its engine: nine kinds of children, four ways to end, with walls and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from brood import KINDS
from harness_help import eventually, with_token

from infra_agent.harness.command import run_command
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls

pytestmark = pytest.mark.requirement("E1")
BROOD = Path(__file__).with_name("brood.py")
RUNNER = Path(__file__).with_name("brood_runner.py")
LONG_S = 60.0


@pytest.fixture(scope="module")
def walled() -> Walls:
    return hold_walls(no_sandbox=False)


@pytest.fixture(params=["bubblewrap", "none"])
def walls(request: pytest.FixtureRequest, walled: Walls) -> Walls:
    return walled if request.param == "bubblewrap" else NO_WALLS


@pytest.fixture
def token() -> Iterator[str]:
    """A mark that all processes of a test carry; whatever still carries it afterwards is ended here."""
    mark = uuid.uuid4().hex
    yield mark
    psutil.wait_procs([_killed(process) for process in with_token(mark)], timeout=5)


def _killed(process: psutil.Process) -> psutil.Process:
    process.kill()
    return process


def brood(token: str, ending: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(BROOD), token, ending]


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(folder)}


@pytest.mark.parametrize(("ending", "timeout_s"), [("exit", LONG_S), ("hang", 6.0)])
def test_a_command_leaves_nothing_when_it_returns(
    tmp_path: Path, walls: Walls, token: str, ending: str, timeout_s: float
) -> None:
    argv = brood(token, ending)
    found = run_command(
        argv, walls=walls, cwd=tmp_path, env=environment(tmp_path), timeout_s=timeout_s, writable=[tmp_path],
        readable=[BROOD.parent],
    )  # fmt: skip
    assert not with_token(token)
    assert found.stdout.text() == "hatched\n", found.stderr.text()
    assert found.timed_out == (ending == "hang")
    assert found.ok == (ending == "exit")


@pytest.mark.parametrize("ending", ["exit", "hang"])
def test_an_engine_leaves_nothing_when_it_is_stopped_or_ends(
    tmp_path: Path, walls: Walls, token: str, ending: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = ManagedProcess.start(
        brood(token, ending), env=environment(scratch), cwd=scratch, log_path=tmp_path / "log", walls=walls,
        writable=[scratch], readable=[BROOD.parent],
    )  # fmt: skip
    try:
        assert eventually(lambda: process.tail(1) == ("hatched",))
        if ending == "exit":
            assert eventually(lambda: not process.alive())
            assert eventually(lambda: not with_token(token))
    finally:
        process.stop(5)
    assert not with_token(token)


@pytest.mark.parametrize("how", ["command", "process"])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
@pytest.mark.parametrize("mode", ["bubblewrap", "none"])
def test_nothing_is_left_when_the_harness_itself_ends(
    tmp_path: Path, token: str, how: str, signum: signal.Signals, mode: str
) -> None:
    argv = [sys.executable, str(RUNNER), how, mode, str(tmp_path), token]
    path = os.pathsep.join([str(Path.cwd()), str(RUNNER.parent)])
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"ready\n"
        # The brood's children, and what carries the token besides: the brood itself, its keeper, and the runner.
        assert eventually(lambda: len(with_token(token)) >= len(KINDS) + 3)
        harness.send_signal(signum)
        harness.wait(30)
    assert eventually(lambda: not with_token(token))


@pytest.mark.parametrize("mode", ["bubblewrap", "none"])
def test_a_harness_killed_while_it_starts_a_command_leaves_nothing(tmp_path: Path, token: str, mode: str) -> None:
    argv = [sys.executable, str(RUNNER), "command", mode, str(tmp_path), token]
    path = os.pathsep.join([str(Path.cwd()), str(RUNNER.parent)])
    for pause_s in (0.0, 0.01, 0.03, 0.08):
        folder = tmp_path / f"{pause_s}"
        folder.mkdir()
        argv[4] = str(folder)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as harness:
            assert harness.stdout is not None
            assert harness.stdout.readline() == b"ready\n"
            eventually(lambda: False, timeout_s=pause_s)
            harness.kill()
        assert eventually(lambda: not with_token(token))
