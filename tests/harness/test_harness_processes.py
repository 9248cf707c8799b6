"""No process outlives its launch, whatever it does and however the launch ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest
from harness_help import FakeEngine, eventually, fake_plan, fake_stack, with_token

from infra_agent.harness.ports import is_free
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls
from infra_agent.harness.server import serve

pytestmark = pytest.mark.requirement("E1", "E2")

CHILDREN = "fork,setsid,double-fork,nohup"


@pytest.fixture(scope="module")
def walled() -> Walls:
    return hold_walls(no_sandbox=False)


@pytest.fixture(params=["bubblewrap", "none"])
def walls(request: pytest.FixtureRequest, walled: Walls) -> Walls:
    return walled if request.param == "bubblewrap" else NO_WALLS


@pytest.fixture
def token() -> str:
    return uuid.uuid4().hex


def start(tmp_path: Path, walls: Walls, *argv: str) -> ManagedProcess:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    env = {"PATH": os.defpath, "HOME": str(scratch)}
    return ManagedProcess.start(
        argv,
        env=env,
        cwd=scratch,
        log_path=tmp_path / "log",
        walls=walls,
        writable=[scratch],
        secrets={"hunter2hunter2"},
    )


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_daemonised_children_are_gone_after_stop(tmp_path: Path, walls: Walls, token: str) -> None:
    plan = fake_plan(children=CHILDREN, token=token)
    with serve(
        plan, FakeEngine(), fake_stack(), walls=walls, scratch=tmp_path / "s", log_path=tmp_path / "log"
    ) as server:
        assert eventually(lambda: len(with_token(token)) >= 4)
        assert server.pid is not None
        assert "fake_engine.py" in " ".join(psutil.Process(server.pid).cmdline())
    assert not with_token(token)
    assert is_free(plan.host, plan.port)


def test_daemonised_children_are_gone_after_a_crash_of_the_engine(tmp_path: Path, walls: Walls, token: str) -> None:
    plan = fake_plan(children=CHILDREN, token=token)
    with serve(
        plan, FakeEngine(), fake_stack(), walls=walls, scratch=tmp_path / "s", log_path=tmp_path / "log"
    ) as server:
        assert eventually(lambda: len(with_token(token)) >= 4)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: not server.alive())
        assert server.process is not None
        assert server.process.returncode == 128 + signal.SIGKILL
        assert eventually(lambda: not with_token(token))


@pytest.mark.parametrize("mode", ["bubblewrap", "none"])
def test_nothing_survives_the_kill_of_the_harness(tmp_path: Path, mode: str, token: str) -> None:
    script = Path(__file__).with_name("harness_runner.py")
    argv = [sys.executable, str(script), mode, str(tmp_path), token]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": "."}
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"ready\n"
        assert eventually(lambda: len(with_token(token)) >= 5)
        runner.kill()
    assert eventually(lambda: not with_token(token))


def test_a_child_that_keeps_the_listening_socket_does_not_keep_the_port(
    tmp_path: Path, walls: Walls, token: str
) -> None:
    plan = fake_plan(fault="keep-port", token=token)
    with serve(plan, FakeEngine(), fake_stack(), walls=walls, scratch=tmp_path / "s", log_path=tmp_path / "log"):
        assert eventually(lambda: len(with_token(token)) >= 2)
    assert is_free(plan.host, plan.port)


def test_an_engine_that_ignores_sigterm_is_killed(tmp_path: Path, walls: Walls, token: str) -> None:
    plan = fake_plan(fault="ignore-term", token=token)
    with serve(
        plan,
        FakeEngine(),
        fake_stack(stop_timeout_s=2.2),
        walls=walls,
        scratch=tmp_path / "s",
        log_path=tmp_path / "log",
    ):
        assert with_token(token)
    assert not with_token(token)


def test_endless_output_keeps_head_and_tail_and_counts_the_rest(tmp_path: Path, walls: Walls) -> None:
    code = "import sys\nprint('first')\nfor _ in range(300): sys.stdout.write('x' * 99_999 + '\\n')\nprint('last')"
    process = start(tmp_path, walls, *python(code))
    assert eventually(lambda: not process.alive())
    process.stop(5)
    log = (tmp_path / "log").read_bytes()
    assert log.startswith(b"first\n")
    assert log.endswith(b"last\n")
    assert len(log) < 21 * 1024 * 1024
    assert process.dropped_bytes == 300 * 100_000 + len("first\nlast\n") - 20 * 1024 * 1024
    assert f"... {process.dropped_bytes} bytes dropped ...".encode() in log
    assert process.tail(1) == ("last",)


def test_output_is_made_safe_to_show(tmp_path: Path, walls: Walls) -> None:
    code = (
        "import sys; w = sys.stdout.buffer.write\n"
        r"w(b'\xff\x00 loaded \x1b[31mred\x1b[0m \x1b]0;title\x07done \xe2\x80\xaelatot\n')" + "\n"
        r"w(b'loading 1%\rloading 50%\rloading 100%\n'); w(b'key hunter2hunter2 used\n')"
    )
    process = start(tmp_path, walls, *python(code))
    assert eventually(lambda: not process.alive())
    lines = process.tail(5)
    process.stop(5)
    assert lines == ("\ufffd loaded red done latot", "loading 100%", "key *** used")


def test_a_command_that_does_not_exist_dies_with_a_reason(tmp_path: Path, walls: Walls) -> None:
    process = start(tmp_path, walls, "/nonexistent/engine")
    assert eventually(lambda: not process.alive())
    lines = process.tail(3)
    code = process.returncode
    process.stop(5)
    assert code not in (0, None)
    assert any("/nonexistent/engine" in line for line in lines)


def test_memory_and_cpu_time_count_the_engine_and_its_children_only(tmp_path: Path, walls: Walls) -> None:
    size = 96 * 1024 * 1024
    code = (
        "import os, time\n"
        f"child = os.fork()\nblock = b'x' * {size} if child == 0 else b''\n"
        "end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
        "print('done', flush=True)\ntime.sleep(300)"
    )
    process = start(tmp_path, walls, *python(code))
    assert eventually(lambda: process.tail(2) == ("done", "done"))
    memory, cpu_s = process.memory_bytes(), process.cpu_s()
    process.stop(5)
    assert size < memory < 1.5 * size
    assert cpu_s >= 0.35
    assert process.memory_bytes() >= memory


def test_stop_may_be_called_twice(tmp_path: Path, walls: Walls) -> None:
    process = start(tmp_path, walls, *python("import time; time.sleep(300)"))
    process.stop(5)
    process.stop(5)
    assert not process.alive()
