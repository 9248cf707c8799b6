"""A launch without an end is unknown: what is left of it is looked for, ended, and said; nothing else is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from agent.sessions import session_in
from harness_help import eventually

from infra_agent.harness.leftovers import close_open_launches, end_survivors
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls
from infra_agent.ledger import kinds as k

pytestmark = pytest.mark.requirement("L3")
SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"]


def launch(id_: str) -> k.LaunchStarted:
    return k.LaunchStarted(
        id=id_, candidate="stock", arm="stock", purpose="block", lane="agent", settings={}, argv=("serve",)
    )


@contextmanager
def abandoned(scratch: Path, walls: Walls) -> Iterator[psutil.Process]:
    """An engine whose keeper was killed and that therefore lives on."""
    scratch.mkdir(parents=True)
    process = ManagedProcess.start(
        SLEEP, env={"PATH": os.defpath, "HOME": str(scratch)}, cwd=scratch, log_path=scratch.parent / "log",
        walls=walls, writable=[scratch],
    )  # fmt: skip
    engine = psutil.Process(process.pid)
    keeper = min((psutil.Process(pid) for pid in process.own_pids()), key=lambda each: each.create_time())
    keeper.kill()
    assert eventually(lambda: not alive(keeper))
    try:
        yield engine
    finally:
        if engine.is_running():
            engine.kill()
        process.stop(5)


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_an_engine_that_outlived_its_keeper_is_ended_and_counted(tmp_path: Path) -> None:
    with abandoned(tmp_path / "scratch" / "L1", NO_WALLS) as engine:
        assert alive(engine)
        assert end_survivors(tmp_path / "scratch" / "L1") == 1
        assert not alive(engine)


def test_behind_walls_the_sandbox_goes_with_its_keeper_and_nothing_is_left_to_end(tmp_path: Path) -> None:
    with abandoned(tmp_path / "scratch" / "L1", hold_walls(no_sandbox=False)) as engine:
        assert eventually(lambda: not alive(engine))
        assert end_survivors(tmp_path / "scratch" / "L1") == 0


def test_engines_of_other_launches_and_other_runs_are_left_alone(tmp_path: Path) -> None:
    with abandoned(tmp_path / "scratch" / "L10", NO_WALLS) as engine:
        assert end_survivors(tmp_path / "scratch" / "L1") == 0
        assert end_survivors(tmp_path / "elsewhere") == 0
        assert alive(engine)


def test_a_process_that_went_elsewhere_is_known_by_its_home(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch" / "L1"
    scratch.mkdir(parents=True)
    with subprocess.Popen(SLEEP, env={"HOME": str(scratch)}, cwd="/", start_new_session=True) as process:
        assert end_survivors(scratch) == 1
        assert process.wait(10) == -signal.SIGKILL


def test_each_open_launch_is_closed_as_interrupted_with_what_was_found(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        for data in (launch("L1"), k.LaunchEnded(id="L1", outcome="stopped", ready_s=1, wall_s=1), launch("L2")):
            session.ledger.append(data)
        with abandoned(session.run_dir / "scratch" / "L2", NO_WALLS):
            close_open_launches(session)
        ended = session.state.launches_ended["L2"]
        before = len(session.state.events)
        close_open_launches(session)
        assert len(session.state.events) == before
    assert (ended.outcome, ended.ready_s) == ("interrupted", None)
    assert "1 of its processes were still there and were ended" in ended.message
    assert ended.wall_s >= 0


def test_the_time_of_a_cut_off_launch_is_what_its_own_session_saw_of_it(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        for data in (
            launch("L1"),
            k.Note(topic="info", text="the last that was stored"),
            k.RunResumed(pid=1, spent_s=1),
        ):
            session.ledger.append(data)
        stamps = [at.ts for at in session.state.events]
        close_open_launches(session)
        seen_s = session.state.launches_ended["L1"].wall_s
    from datetime import datetime

    times = [datetime.fromisoformat(ts) for ts in stamps]
    assert seen_s == (times[-2] - times[-3]).total_seconds()
