"""Finds a place where a control group (version 2) of our own can be made; the keeper makes one there for each launch.

Covered: root, a group delegated to this user (`systemd-run --user --scope infra-agent ...`), control-group namespaces.
Not covered: version 1; making a place by moving other programs' processes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = frozenset({"memory", "pids"})
_LEVELS_UP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`parent`: where groups can be made. `own`: the group of this process, to come back to."""

    parent: Path
    own: Path

    def new_group(self) -> Path:
        """A name that no other group has."""
        return self.parent / f"infra-agent-{os.getpid()}-{secrets.token_hex(4)}"


def find_place(proc: Path = Path("/proc/self")) -> Place | None:
    """The nearest group above this process below which a limited one can be made; None when there is none."""
    own = _own_group(proc)
    if own is None:
        return None
    return next((Place(parent=parent, own=own) for parent in _upwards(own) if _usable(parent)), None)


def _own_group(proc: Path) -> Path | None:
    mount = _mount(proc)
    if mount is None:
        return None
    root, point = mount
    for line in _lines(proc / "cgroup"):
        if line.startswith("0::/"):
            path = line[3:]
            inside = path[len(root) :] if root != "/" and path.startswith(root) else path
            return point / inside.lstrip("/")
    return None


def _mount(proc: Path) -> tuple[str, Path] | None:
    """Root and mount point of the version 2 hierarchy."""
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            words = before.split()
            return words[3], Path(words[4])
    return None


def _upwards(own: Path) -> Iterator[Path]:
    for directory in (own, *own.parents)[: _LEVELS_UP + 1]:
        if not (directory / "cgroup.procs").exists():
            return
        yield directory


def _usable(parent: Path) -> bool:
    """Whether a child of this group gets both controllers and may be entered; tried by making one."""
    given = " ".join(_lines(parent / "cgroup.subtree_control")).split()
    if not given or not set(given) >= CONTROLLERS or not os.access(parent / "cgroup.procs", os.W_OK):
        return False
    child = parent / f"infra-agent-try-{secrets.token_hex(4)}"
    try:
        child.mkdir()
    except OSError:
        return False
    try:
        return all(os.access(child / name, os.W_OK) for name in ("memory.max", "pids.max", "cgroup.procs"))
    finally:
        with contextlib.suppress(OSError):
            child.rmdir()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
