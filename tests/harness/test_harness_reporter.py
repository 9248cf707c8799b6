"""The reporter tells what is in effect, sleeps otherwise, and never gets in the engine's way."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness_help import FakeEngine, eventually, fake_plan, fake_stack

from infra_agent.harness import reporter
from infra_agent.harness.sandbox import NO_WALLS, hold_walls
from infra_agent.harness.server import serve


@pytest.fixture
def short() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@contextmanager
def reporting(folder: Path, code: str = "", **extra: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process with the reporter, up and sleeping."""
    env = reporter.with_reporter({"PATH": os.defpath, **extra}, folder)
    program = f"{code}\nprint('up', flush=True)\nimport time\ntime.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("no_sandbox", [False, True])
def test_any_python_engine_reports_through_the_sandbox(tmp_path: Path, no_sandbox: bool) -> None:
    with serve(
        fake_plan(), FakeEngine(), fake_stack(), walls=hold_walls(no_sandbox), scratch=tmp_path / ("deep" * 30),
        log_path=tmp_path / "log", with_reporter=True,
    ) as server:  # fmt: skip
        snapshot = server.snapshot()
    assert snapshot["python.version"] == ".".join(map(str, sys.version_info[:3]))
    assert snapshot["threads.count"] >= 2
    assert "torch.version" not in snapshot
    assert server.snapshot() == {}


def test_facts_of_torch_are_read_from_the_loaded_module(short: Path) -> None:
    fake = "import sys, types; t = types.ModuleType('torch'); t.__version__ = '9.9'; t.get_num_threads = lambda: 7\n"
    with reporting(short, fake + "sys.modules['torch'] = t"):
        signals = reporter.ask(short).signals
    assert signals["torch.version"] == "9.9"
    assert signals["torch.num_threads"] == 7


def test_a_fact_that_cannot_be_read_is_absent_and_the_reason_is_told(short: Path) -> None:
    fake = "import sys, types; t = types.ModuleType('torch'); t.get_num_threads = lambda: 1 / 0; t.__version__ = '1'\n"
    with reporting(short, fake + "sys.modules['torch'] = t"):
        snapshot = reporter.ask(short)
    assert "torch.num_threads" not in snapshot.signals
    assert "python.version" in snapshot.signals
    assert "ZeroDivisionError" in snapshot.errors["torch_facts"]


def test_another_sitecustomize_still_runs(short: Path) -> None:
    other = short / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins\nbuiltins.customised = True\n")
    with reporting(short, "assert customised", PYTHONPATH=str(other)):
        assert reporter.ask(short).signals


def test_child_processes_of_the_engine_do_not_report(short: Path) -> None:
    code = "import os; assert 'INFRA_AGENT_REPORTER' not in os.environ"
    with reporting(short, code):
        assert reporter.ask(short).signals


def test_a_socket_that_cannot_be_made_does_not_stop_the_engine(short: Path) -> None:
    with reporting(short / "missing"):
        snapshot = reporter.ask(short / "missing")
    assert snapshot.signals == {}
    assert "reporter" in snapshot.errors


def test_nonsense_on_the_socket_does_not_end_the_reporter(short: Path) -> None:
    with reporting(short):
        for nonsense in (b"", b"\xff\xff\xff\xff", b"\0\0\0\x05hello", b"\0\0\0\x02{}"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(short / "report.sock"))
                connection.sendall(nonsense)
        assert reporter.ask(short).signals


def test_an_idle_reporter_never_wakes_up(short: Path) -> None:
    with reporting(short) as process:
        tasks = Path(f"/proc/{process.pid}/task")
        threads = [task for task in tasks.iterdir() if task.name != str(process.pid)]
        assert len(threads) == 1

        def scheduled() -> str:
            return (threads[0] / "schedstat").read_text()

        def sleeps() -> bool:
            return (threads[0] / "stat").read_text().rpartition(")")[2].split()[0] == "S"

        assert eventually(sleeps)
        before = scheduled()
        time.sleep(0.5)  # the absence of an event can only be seen by letting time pass
        assert scheduled() == before
        assert reporter.ask(short).signals
        assert scheduled() != before


def test_an_engine_without_a_reporter_is_not_asked(tmp_path: Path) -> None:
    class Opaque(FakeEngine):
        def reporter(self) -> str | None:
            return None

    with serve(
        fake_plan(), Opaque(), fake_stack(), walls=NO_WALLS, scratch=tmp_path / "s", log_path=tmp_path / "log",
        with_reporter=True,
    ) as server:  # fmt: skip
        assert server.snapshot() == {}
