"""Every wall is tried for real, and one that is taken out is noticed by the attempts that go through it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from walls_help import ANY, broken, scripted, without

from infra_agent.harness import bombs, selftest
from infra_agent.harness.bombs import BOMBS, Bomb
from infra_agent.harness.escapes import files, gpus, kernel, network, processes
from infra_agent.harness.escapes.attempt import Attempt, in_child
from infra_agent.harness.escapes.everything import ATTEMPTS, make
from infra_agent.harness.limits import NO_LIMITS, Limits
from infra_agent.harness.planted import Bait, planted
from infra_agent.harness.sandbox import NO_WALLS, Inspection, Walls, inspect_walls
from infra_agent.harness.selftest import CannotStart, namespace_reason, try_walls

pytestmark = pytest.mark.requirement("E4")
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: an ordinary user has nothing to keep here")
EVERYTHING = ("--bind", "/", "/")
SYSTEM_FILES = [["--ro-bind", "/etc/*", "/etc/*"], ["--symlink", ANY, ANY]]
SHARED_USERS = [["--unshare-user"], ["--disable-userns"]]


def memory(path: str) -> list[str]:
    """The words for an empty directory in memory."""
    return ["--perms", ANY, "--size", ANY, "--tmpfs", path]


@pytest.fixture(scope="module")
def inspection() -> Inspection:
    return inspect_walls(no_sandbox=False)


@pytest.fixture
def bait(tmp_path: Path) -> Iterator[Bait]:
    with planted(tmp_path, 1 << 20, own_user_space=True) as found:
        yield found


def test_every_wall_holds_on_this_machine_and_says_how_it_was_tried(inspection: Inspection) -> None:
    assert [f"{check.name}: {check.seen}" for check in inspection.checks if not check.held] == []
    assert inspection.problem is None
    names = [check.name for check in inspection.checks]
    assert len(set(names)) == len(names) >= 50
    assert all(check.tried and not check.tried.startswith("not tried") for check in inspection.checks)
    assert inspection.walls.network.startswith("loopback only")
    assert inspection.walls.limits.startswith("memory ")
    assert "not held" not in inspection.walls.limits


@pytest.mark.parametrize(
    ("drops", "adds", "noticed"),
    [
        pytest.param([["--unshare-net"]], (), {"own network", "no host loopback", "no UDP to the host"}, id="network"),
        pytest.param([["--unshare-net"]], (), {"no TCP outside", "no DNS", "no abstract sockets"}, id="network-out"),
        pytest.param([["--unshare-ipc"]], (), {"no shared segments"}, id="ipc"),
        pytest.param(
            [["--unshare-uts"], ["--hostname", ANY]], (), {"own process, IPC, host-name and mount spaces"}, id="uts"
        ),
        pytest.param([["--clearenv"]], (), {"no inherited secrets"}, id="environment"),
        pytest.param([["--new-session"]], (), {"no terminal"}, id="session"),
        pytest.param([["--remount-ro", "/dev"]], (), {"system read-only"}, id="dev-read-only"),
        pytest.param(SYSTEM_FILES, EVERYTHING, {"other files hidden", "/var and /run hidden"}, id="files"),
        pytest.param(SYSTEM_FILES, EVERYTHING, {"no sockets of services", "no other root"}, id="files-otherwise"),
        pytest.param([*SYSTEM_FILES, memory("/tmp")], EVERYTHING, {"/tmp hidden"}, id="tmp"),
        pytest.param([*SYSTEM_FILES, memory(str(Path.home()))], EVERYTHING, {"home hidden"}, id="home"),
        pytest.param(
            [*SYSTEM_FILES, memory("/tmp"), ["--remount-ro", "/"]],
            EVERYTHING,
            {"nothing written beside it"},
            id="beside",
        ),
        pytest.param(
            [*SYSTEM_FILES, ["--dev", "/dev"], memory("/dev/shm"), ["--remount-ro", "/dev"]],
            (*EVERYTHING, "--dev-bind", "/dev", "/dev"),
            {"own shared memory", "no devices but its own"},
            id="dev",
        ),
        pytest.param(
            [["--unshare-pid"], *SHARED_USERS],
            (),
            {"other processes hidden", "no signals out", "own process, IPC, host-name and mount spaces"},
            id="processes",
            marks=ROOT,
        ),
        pytest.param(
            [["--unshare-pid"], *SHARED_USERS, ["--cap-drop", ANY]],
            (),
            {"no tracing out", "no memory read out", "other environments hidden"},
            id="trace",
            marks=ROOT,
        ),
        pytest.param(
            [["--cap-drop", ANY], *SHARED_USERS],
            (),
            {"no capabilities", "no mount", "no remount", "no unmount", "no other root directory", "no device nodes"},
            id="capabilities",
            marks=ROOT,
        ),
        pytest.param(
            [["--cap-drop", ANY], *SHARED_USERS],
            (),
            {"no raw sockets", "no packet sockets", "no network changes", "no other user", "host name kept"},
            id="capabilities-otherwise",
            marks=ROOT,
        ),
        pytest.param(
            [["--ro-bind", "/proc/sys", "/proc/sys"]], (), {"kernel settings read-only"}, id="settings", marks=ROOT
        ),
        pytest.param(
            [*SYSTEM_FILES, ["--ro-bind", "/usr", "/usr"], ["--remount-ro", "/"]],
            EVERYTHING,
            {"system read-only", "links lead nowhere"},
            id="system",
            marks=ROOT,
        ),
        pytest.param(
            [*SYSTEM_FILES, ["--ro-bind", "/sys/*", "/sys/*"]],
            EVERYTHING,
            {"/sys read-only", "system secrets hidden"},
            id="sys",
            marks=ROOT,
        ),
    ],
)
def test_a_wall_taken_out_is_noticed(
    inspection: Inspection, tmp_path: Path, drops: list[list[str]], adds: tuple[str, ...], noticed: set[str]
) -> None:
    found = broken(without(tmp_path, inspection.walls, drops, adds))
    assert noticed <= found.keys(), found


def test_a_bubblewrap_that_holds_nothing_lets_nearly_every_attempt_through(tmp_path: Path) -> None:
    script = (
        '#!/bin/sh\nd=.\nwhile [ "$1" != -- ]; do [ "$1" = --chdir ] && d=$2; shift; done\nshift; cd $d; exec "$@"\n'
    )
    found = broken(scripted(tmp_path, script))
    assert len(found) >= (40 if os.geteuid() == 0 else 20)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n", "cannot start here"),
        ("#!/bin/sh\nexit 0\n", "gave no answer"),
    ],
)
def test_a_bubblewrap_that_starts_nothing_is_not_taken_for_a_wall(tmp_path: Path, script: str, said: str) -> None:
    found = try_walls(scripted(tmp_path, script), NO_LIMITS)
    assert isinstance(found, CannotStart)
    assert said in found.message


def test_an_attempt_that_cannot_be_made_counts_as_a_wall_that_does_not_hold() -> None:
    def fail(_: object) -> str | None:
        raise KeyError("nothing planted")

    def refused(_: object) -> str | None:
        raise PermissionError

    assert "could not be tried" in make(Attempt("x", "y", fail), {})
    assert make(Attempt("x", "y", refused), {}) == ""
    assert "could not be tried" in (in_child(lambda: str(1 // 0)) or "")


def test_an_attempt_without_an_answer_counts_as_a_wall_that_does_not_hold(
    tmp_path: Path, inspection: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = Attempt("a new wall", "tried nowhere", lambda _: None)
    monkeypatch.setattr(selftest, "ATTEMPTS", (*ATTEMPTS, more))
    assert broken(inspection.walls) == {"a new wall": "no answer"}


def test_what_the_keeper_holds_is_noticed_where_there_is_no_keeper(bait: Bait, tmp_path: Path) -> None:
    facts = {**bait.facts, "mark": "m"}
    program = (
        "import json, os, sys; from infra_agent.harness.escapes import kernel, processes\n"
        "facts = json.loads(sys.argv[1]); os.dup2(1, 9)\n"
        "print(processes._descriptors(facts)); print(processes._large_file(facts)); print(kernel._keys(facts))"
    )
    argv = [sys.executable, "-c", program, selftest.json.dumps(facts)]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=60)
    descriptors, large, key = done.stdout.splitlines()
    assert "9 → " in descriptors
    assert "could be made" in large
    assert bait.facts["key"] is None or "key of the harness" in key


def test_a_daemon_that_outlives_its_sandbox_is_told_and_ended(bait: Bait) -> None:
    sleeping = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", bait.facts["daemon"]]
    with subprocess.Popen(sleeping) as daemon:
        assert bait.arrived()["nothing outlives it"]
        assert daemon.wait(timeout=10) != 0


def test_nothing_that_was_planted_stays(tmp_path: Path) -> None:
    with planted(tmp_path, 1 << 20, own_user_space=True) as bait:
        paths = [*bait.facts["secrets"].values(), bait.facts["socket_path"]]
        assert all(Path(path).exists() for path in paths)
        assert not bait.arrived()
    assert not any(Path(path).exists() for path in paths)
    assert bait.victim.poll() is not None


@pytest.mark.parametrize("bomb", BOMBS, ids=[bomb.kind for bomb in BOMBS])
def test_a_bomb_that_nothing_stops_is_noticed(
    bomb: Bomb, inspection: Inspection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bombs, "_TIMEOUT_S", 2.0)
    free = Bomb(name=bomb.name, kind=bomb.kind, tried=bomb.tried, program=bomb.program, limits=Limits())
    seen, held = bombs._throw(free, inspection.walls, tmp_path / "bomb", NO_LIMITS)
    assert seen == "it was not stopped"
    assert not held


def test_a_program_that_sees_fewer_accelerators_inside_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho 'GPU 1: B (UUID: y)'\necho '  MIG 1g'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert gpus.counts()["nvidia-smi"] == 2
    same = next(attempt for attempt in gpus.ATTEMPTS if attempt.name == "same accelerators for programs")
    assert make(same, {"gpu_counts": gpus.counts()}) == ""
    assert "inside" in make(same, {"gpu_counts": {"nvidia-smi": 8}})
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert "failed: exit code 9" in str(gpus.counts()["nvidia-smi"])
    nodes = next(attempt for attempt in gpus.ATTEMPTS if attempt.name == "same accelerators")
    assert "outside" in make(nodes, {"gpu_nodes": ["/dev/nvidia99"]})


def test_no_attempt_changes_anything_where_it_works(bait: Bait, tmp_path: Path) -> None:
    """Run outside of any sandbox: what is mounted, named and set is afterwards as it was."""

    def state() -> list[str]:
        settings = (
            "/proc/self/mountinfo",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname",
            "/proc/net/dev",
        )
        shown = [Path(path).read_text() for path in settings]
        return [shown[0], shown[1], shown[2], "".join(line.partition(":")[0] for line in shown[3].splitlines())]

    before = state()
    program = (
        "import json, sys; from infra_agent.harness.escapes.everything import make\n"
        "from infra_agent.harness.escapes import files, kernel, network\n"
        "facts = json.loads(sys.argv[1])\n"
        "[make(a, facts) for a in (*network.ATTEMPTS, *kernel.ATTEMPTS, *files.ATTEMPTS)]"
    )
    argv = [sys.executable, "-c", program, selftest.json.dumps({**bait.facts, "mark": "m"})]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    subprocess.run(argv, cwd=tmp_path, env=env, check=True, timeout=60)
    assert state() == before


def test_each_module_of_attempts_is_made(inspection: Inspection) -> None:
    listed = [attempt.name for module in (network, files, processes, kernel, gpus) for attempt in module.ATTEMPTS]
    assert [attempt.name for attempt in ATTEMPTS] == listed
    assert [check.name for check in inspection.checks] == [*listed, *(bomb.name for bomb in BOMBS)]


def test_walls_that_were_not_tried_do_not_count_as_held() -> None:
    found = inspect_walls(no_sandbox=True)
    assert found.walls is NO_WALLS
    assert found.problem is None
    assert found.checks
    assert not any(check.held for check in found.checks)
    assert all("--no-sandbox" in check.tried for check in found.checks)


def test_the_reason_of_a_refusing_kernel_is_named(tmp_path: Path) -> None:
    (tmp_path / "sys/user").mkdir(parents=True)
    (tmp_path / "sys/kernel").mkdir(parents=True)
    assert namespace_reason(tmp_path) is None
    (tmp_path / "sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    reason = namespace_reason(tmp_path)
    assert reason is not None
    assert "AppArmor" in reason.message
    assert "profile" in reason.hint
    (tmp_path / "sys/user/max_user_namespaces").write_text("0\n")
    reason = namespace_reason(tmp_path)
    assert reason is not None
    assert "user namespaces are off" in reason.message


def test_walls_without_a_user_namespace_of_their_own_are_tried_where_the_first_choice_does_not_start(
    inspection: Inspection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case " $* " in *" --disable-userns "*) echo no >&2; exit 1;; esac'
    walls = scripted(tmp_path, f'#!/bin/sh\n{refuse}\nexec {inspection.walls.binary} "$@"\n')
    monkeypatch.setattr("infra_agent.harness.sandbox.find_bwrap", lambda: Path(walls.binary))
    found = inspect_walls(no_sandbox=False)
    assert found.problem is None, found.problem
    assert found.walls.user_space == ("--unshare-user-try",)
    assert isinstance(found.walls, Walls)
