"""A launch that takes more than its share ends, alone, and its outcome says what it took too much of."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import psutil
import pytest
from harness_help import FakeEngine, eventually, fake_plan, fake_stack

from infra_agent.harness import limits as limits_module
from infra_agent.harness.cgroup import find_place
from infra_agent.harness.launch_errors import LaunchFailed
from infra_agent.harness.launching import Launch, require_alive
from infra_agent.harness.limits import (
    NO_LIMITS,
    Exceeded,
    Limits,
    counted_inside,
    exceeded_in,
    held_in,
    limits_for,
)
from infra_agent.harness.machine import memory_bytes
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls
from infra_agent.harness.server import serve
from infra_agent.harness.watch import Watch

pytestmark = pytest.mark.requirement("E3")
MIB = 1 << 20
FILL = "import time\nblock = b'x' * (200 << 20)\ntime.sleep(60)"
FORK = "import os, time\nfor _ in range(200):\n    if os.fork() == 0:\n        time.sleep(60)\ntime.sleep(60)"
THREADS = "import threading, time\nfor _ in range(200): threading.Thread(target=time.sleep, args=(60,)).start()\n"
WRITE = "import time\nopen('big', 'wb').write(b'x' * (64 << 20))\ntime.sleep(60)"
WRITE_DELETED = (
    "import os, time\nf = open('big', 'wb')\nos.unlink('big')\nf.write(b'x' * (64 << 20))\nf.flush()\ntime.sleep(60)"
)
WRITE_MEMORY = "import time\nopen('/dev/shm/big', 'wb').write(b'x' * (200 << 20))\ntime.sleep(60)"
CHILD_FILLS = "import os, time\nif os.fork() == 0:\n    block = b'x' * (200 << 20)\ntime.sleep(60)"
SHARED = "import os, time\nblock = b'x' * (48 << 20)\nfor _ in range(7):\n    if os.fork() == 0: break\ntime.sleep(3)"


@pytest.fixture(scope="module")
def walled() -> Walls:
    return hold_walls(no_sandbox=False)


@pytest.fixture(params=["bubblewrap", "none"])
def walls(request: pytest.FixtureRequest, walled: Walls) -> Walls:
    return walled if request.param == "bubblewrap" else NO_WALLS


def end_of(walls: Walls, folder: Path, code: str, limits: Limits) -> ManagedProcess:
    scratch = folder / "scratch"
    scratch.mkdir()
    process = ManagedProcess.start(
        [sys.executable, "-I", "-S", "-c", code],
        env={"PATH": os.defpath},
        cwd=scratch,
        log_path=folder / "log",
        walls=walls,
        writable=[scratch],
        limits=limits,
    )
    eventually(lambda: not process.alive(), 40)
    process.stop(3)
    return process


@pytest.mark.parametrize(
    ("code", "limits", "kind"),
    [
        pytest.param(FILL, Limits(memory_bytes=100 * MIB), "memory", id="memory"),
        pytest.param(CHILD_FILLS, Limits(memory_bytes=100 * MIB), "memory", id="memory of a child"),
        pytest.param(WRITE, Limits(disk_bytes=16 * MIB), "disk", id="disk"),
        pytest.param(WRITE_DELETED, Limits(disk_bytes=16 * MIB, memory_bytes=1 << 40), "disk", id="a deleted file"),
    ],
)
def test_what_goes_above_its_limit_is_ended_with_the_reason(
    walls: Walls, tmp_path: Path, code: str, limits: Limits, kind: str
) -> None:
    process = end_of(walls, tmp_path, code, limits)
    exceeded = process.exceeded
    assert exceeded is not None
    assert exceeded.kind == kind
    assert exceeded.seen > exceeded.limit in (limits.memory_bytes, limits.disk_bytes)
    assert process.held[kind] in ("watched", "control group")


def test_files_in_memory_count_as_memory(walled: Walls, tmp_path: Path) -> None:
    exceeded = end_of(walled, tmp_path, WRITE_MEMORY, Limits(memory_bytes=100 * MIB)).exceeded
    assert exceeded is not None
    assert exceeded.kind == "memory"


@pytest.mark.parametrize("code", [FORK, THREADS], ids=["processes", "threads"])
def test_processes_and_threads_without_end_are_stopped(walls: Walls, tmp_path: Path, code: str) -> None:
    """By the keeper, or by the kernel: then the program fails to start one more."""
    process = end_of(walls, tmp_path, code, Limits(tasks=80))
    exceeded = process.exceeded
    failed = any(word in line for line in process.tail(5) for word in ("BlockingIOError", "can't start new thread"))
    assert failed or (exceeded is not None and exceeded.kind == "tasks" and exceeded.seen > 80)


def test_memory_that_processes_share_counts_once(walls: Walls, tmp_path: Path) -> None:
    """Eight processes with the same 48 MB are far below a limit of 200 MB."""
    process = end_of(walls, tmp_path, SHARED, Limits(memory_bytes=200 * MIB))
    assert process.exceeded is None
    assert process.returncode == 0


def test_a_file_above_the_largest_allowed_cannot_be_made(walls: Walls, tmp_path: Path) -> None:
    code = (
        "import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nf = open('big', 'wb')\n"
        "os.truncate(f.fileno(), 1 << 20)\n"
        "try:\n    os.truncate(f.fileno(), (1 << 20) + 1)\nexcept OSError as error:\n    print(error.strerror)"
    )
    process = end_of(walls, tmp_path, code, Limits(file_bytes=MIB))
    assert process.tail(1) == ("File too large",)


def test_a_launch_below_its_limits_ends_as_it_would(walls: Walls, tmp_path: Path) -> None:
    process = end_of(walls, tmp_path, "print('done')", limits_for(None, tmp_path))
    assert process.exceeded is None
    assert process.returncode == 0
    assert process.tail(1) == ("done",)
    assert set(process.held) == {"memory", "tasks", "disk"}


def test_the_kernel_is_told_to_take_the_launch_first_when_memory_runs_out(walls: Walls, tmp_path: Path) -> None:
    code = "print(open('/proc/self/oom_score_adj').read().strip())"
    assert end_of(walls, tmp_path, code, limits_for(None, tmp_path)).tail(1) == ("500",)


@pytest.mark.parametrize("memory", [20 * MIB])
def test_an_engine_above_the_stack_s_limit_while_starting_says_which_limit(
    walls: Walls, tmp_path: Path, memory: int
) -> None:
    stack = fake_stack()
    stack = stack.model_copy(update={"limits": stack.limits.model_copy(update={"memory_bytes": memory})})
    plan = fake_plan(fault="grow-at-start")
    with (
        pytest.raises(LaunchFailed) as caught,
        serve(plan, FakeEngine(), stack, walls=walls, scratch=tmp_path / "s", log_path=tmp_path / "log"),
    ):
        pytest.fail("it takes more than it may")
    assert caught.value.outcome == "over_memory"
    assert "limit of 21 MB" in caught.value.message
    assert "limits.memory_bytes" in caught.value.hint


def test_an_engine_above_its_limit_while_it_is_measured_says_which_limit(walls: Walls, tmp_path: Path) -> None:
    stack = fake_stack()
    stack = stack.model_copy(update={"limits": stack.limits.model_copy(update={"memory_bytes": 150 * MIB})})
    plan = fake_plan(fault="grow-later")
    with serve(plan, FakeEngine(), stack, walls=walls, scratch=tmp_path / "s", log_path=tmp_path / "log") as server:
        assert eventually(lambda: not server.alive(), 40)
        with pytest.raises(LaunchFailed) as caught:
            require_alive(Launch("L1", server))
    assert caught.value.outcome == "over_memory"
    assert "while it was measured: its memory went above its limit of 157 MB" in caught.value.message


def test_the_stack_s_limit_replaces_the_default_and_the_default_leaves_the_machine_some(tmp_path: Path) -> None:
    default = limits_for(None, tmp_path)
    assert default.memory_bytes is not None
    assert 0.5 * memory_bytes() < default.memory_bytes < memory_bytes()
    assert default.tasks is not None
    assert default.tasks >= 8192
    assert default.file_bytes is not None
    assert default.file_bytes >= memory_bytes()
    assert limits_for(123, tmp_path).memory_bytes == 123


def test_looking_costs_little(walled: Walls, tmp_path: Path) -> None:
    """The keeper's own CPU time while an idle engine runs under the default limits: a few thousandths of a core."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = ManagedProcess.start(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], env={"PATH": os.defpath}, cwd=scratch,
        log_path=tmp_path / "log", walls=walled, writable=[scratch], limits=limits_for(None, tmp_path),
    )  # fmt: skip
    try:
        keeper = psutil.Process(process._popen.pid)
        time.sleep(1)
        before, began = sum(keeper.cpu_times()[:2]), time.monotonic()
        time.sleep(4)
        used = sum(keeper.cpu_times()[:2]) - before
        assert used / (time.monotonic() - began) < 0.05
    finally:
        process.stop(3)


def test_the_last_words_of_a_keeper_are_read_with_distrust() -> None:
    good = {"exceeded": {"kind": "memory", "limit": 10, "seen": 11}, "held": {"memory": "watched"}}
    assert exceeded_in(json.dumps(good).encode()) == Exceeded(kind="memory", limit=10, seen=11)
    assert held_in(json.dumps(good).encode()) == {"memory": "watched"}
    for report in (b"", b"x", b"[]", b"{}", b'{"exceeded": null}', b'{"exceeded": {"kind": "luck"}}'):
        assert exceeded_in(report) is None
        assert held_in(report) == {}


@pytest.mark.parametrize(
    ("kind", "outcome", "said"),
    [
        ("memory", "over_memory", "its memory went above its limit of 8.0 GB (8.4 GB seen)"),
        ("disk", "over_disk", "what it wrote to disk went above its limit of 8.0 GB (8.4 GB seen)"),
        ("tasks", "over_processes", "more processes and threads than its limit of 8000000000 allows"),
    ],
)
def test_an_end_by_a_limit_is_said_in_words(kind: str, outcome: str, said: str) -> None:
    exceeded = Exceeded(kind=kind, limit=8_000_000_000, seen=8_400_000_000)  # type: ignore[arg-type]
    assert exceeded.outcome == outcome
    assert said in str(exceeded)


@pytest.mark.parametrize(
    ("uid_map", "counted"), [("0 0 4294967295", False), ("0 100000 65536", True), ("", False), ("garbage", False)]
)
def test_only_the_machine_s_own_root_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid_map: str, counted: bool
) -> None:
    (tmp_path / "uid_map").write_text(uid_map)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert counted_inside(tmp_path) is counted
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert counted_inside(tmp_path) is True


def hierarchy(folder: Path, controllers: str) -> Path:
    """Version 2 control groups as far as files can show them; the kernel's own files come with a directory."""
    point = folder / "cgroup"
    own = point / "user.slice/app.slice/run.scope"
    own.mkdir(parents=True)
    for group in (point, point / "user.slice", point / "user.slice/app.slice", own):
        (group / "cgroup.procs").write_text("")
        (group / "cgroup.subtree_control").write_text("")
    (point / "user.slice/app.slice/cgroup.subtree_control").write_text(controllers)
    (folder / "cgroup.txt").write_text("")
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("1:name=systemd:/x\n0::/user.slice/app.slice/run.scope\n")
    (proc / "mountinfo").write_text(f"30 24 0:26 / {point} rw,nosuid - cgroup2 cgroup2 rw\n")
    return proc


def test_a_place_for_control_groups_is_the_nearest_one_that_gives_both_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = hierarchy(tmp_path, "cpu memory pids")
    made = Path.mkdir

    def mkdir(path: Path, *args: object, **options: object) -> None:
        made(path, *args, **options)  # type: ignore[arg-type]
        if path.name.startswith("infra-agent-"):
            for name in ("memory.max", "pids.max", "cgroup.procs"):
                (path / name).write_text("")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    place = find_place(proc)
    assert place is not None
    assert place.parent == tmp_path / "cgroup/user.slice/app.slice"
    assert place.own == place.parent / "run.scope"
    assert not list(place.parent.glob("infra-agent-*"))
    assert place.new_group().parent == place.parent
    assert place.new_group() != place.new_group()


@pytest.mark.parametrize("controllers", ["", "cpu", "memory", "cpu io"])
def test_a_place_without_both_controllers_is_none(tmp_path: Path, controllers: str) -> None:
    assert find_place(hierarchy(tmp_path, controllers)) is None


def test_a_machine_without_version_2_has_no_place(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("3:memory:/x\n")
    (tmp_path / "mountinfo").write_text("30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    assert find_place(tmp_path) is None
    assert find_place(tmp_path / "missing") is None


def test_a_control_group_is_given_its_limits_entered_left_and_asked_what_it_killed(tmp_path: Path) -> None:
    group, own = tmp_path / "launch", tmp_path / "own"
    own.mkdir()
    limits = {"memory_bytes": 1000, "tasks": 7, "group": str(group), "own_group": str(own)}
    watch = Watch(limits)
    assert watch._enter()
    written = {path.name: path.read_text() for path in group.iterdir()}
    assert written == {
        "memory.max": "1000", "pids.max": "7", "memory.swap.max": "0", "memory.oom.group": "1",
        "cgroup.procs": str(os.getpid()),
    }  # fmt: skip
    assert watch.held() == {"memory": "control group", "tasks": "control group"}
    assert watch.look() is None
    (group / "memory.events").write_text("low 0\noom 1\noom_kill 3\n")
    assert watch.ended() == {"kind": "memory", "limit": 1000, "seen": 1000}
    assert (group / "cgroup.kill").read_text() == "1"


def test_where_no_control_group_can_be_made_the_keeper_looks_itself(tmp_path: Path) -> None:
    limits = {"memory_bytes": 1 << 50, "group": str(tmp_path / "missing/launch"), "own_group": str(tmp_path)}
    watch = Watch(limits)
    assert not watch._enter()
    assert NO_LIMITS.keeper_options([], sandboxed=True) == []
    assert limits_module.MEMORY_SHARE < 1


def test_an_rlimit_inside_is_named_where_it_holds(tmp_path: Path) -> None:
    watch = Watch({"tasks": 5, "disk_bytes": 5, "counted_inside": True})
    assert watch.held() == {"tasks": "rlimit", "disk": "watched"}
    sentence = Limits(tasks=5, memory_bytes=2_000_000_000).sentence({"tasks": "rlimit"})
    assert sentence == "memory 2.0 GB (not held), processes 5 (rlimit)"
