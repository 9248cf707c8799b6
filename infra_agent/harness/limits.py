"""How much of the machine one launch may take: memory, processes, disk. Generous, so that nothing measured changes.

A launch without limits of its own may take most of the machine's memory, never all of it: a runaway ends before the
machine does. The keeper holds them (`harness.watch`).

Covered: defaults from the machine, the stack's own memory limit, how each limit is held, the name of an end by a limit.
Not covered: CPU time and memory of accelerators.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from infra_agent.harness.cgroup import Place, find_place
from infra_agent.harness.machine import memory_bytes
from infra_agent.harness.mounts import memory_directories
from infra_agent.stack.sizes import words

MEMORY_SHARE = 0.85
DISK_SHARE = 0.8
LEAST_TASKS = 8192
TASKS_PER_CORE = 64
Kind = Literal["memory", "tasks", "disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Ceilings of one launch; None: no such ceiling. `tasks` are processes and threads together.

    `disk_bytes`: growth of the writable directories. `file_bytes`: the largest single file, in-memory ones included,
    so it is never below the machine's memory. `place`: where a control group can be made.
    """

    memory_bytes: int | None = None
    tasks: int | None = None
    disk_bytes: int | None = None
    file_bytes: int | None = None
    place: Place | None = None

    @property
    def tasks_inside(self) -> int | None:
        """Most tasks as an rlimit of the sandbox, where the kernel counts them for it."""
        return self.tasks if counted_inside() else None

    def at(self, place: Place | None) -> Limits:
        """The same limits, held by control groups made there."""
        return replace(self, place=place)

    def keeper_options(self, writable: Sequence[Path], sandboxed: bool) -> list[str]:
        """The keeper's words for these limits; none without limits."""
        named = {
            "memory_bytes": self.memory_bytes,
            "tasks": self.tasks,
            "disk_bytes": self.disk_bytes,
            "file_bytes": self.file_bytes,
        }
        limits: dict[str, object] = {name: value for name, value in named.items() if value is not None}
        if not limits:
            return []
        limits["directories"] = [str(path) for path in writable]
        limits["memory_files"] = memory_directories() if sandboxed else []
        limits["counted_inside"] = sandboxed and self.tasks_inside is not None
        if self.place is not None:
            limits |= {"group": str(self.place.new_group()), "own_group": str(self.place.own)}
        return [f"--limits={json.dumps(limits)}"]

    def sentence(self, held: Mapping[str, str]) -> str:
        """What is held and how, for people. `held`: what the keeper said of a launch (`held_in`)."""
        parts = [
            ("memory", self.memory_bytes and f"memory {words(self.memory_bytes)}"),
            ("tasks", self.tasks and f"processes {self.tasks}"),
            ("disk", self.disk_bytes and f"disk {words(self.disk_bytes)}"),
        ]
        return ", ".join(f"{text} ({held.get(kind, 'not held')})" for kind, text in parts if text)


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """The limit that ended a launch. `seen`: what was in use when it was noticed."""

    kind: Kind
    limit: int
    seen: int

    @property
    def outcome(self) -> Literal["over_memory", "over_processes", "over_disk"]:
        """A value of ledger.kinds.LaunchEnded.outcome."""
        return _OUTCOMES[self.kind]

    def __str__(self) -> str:
        if self.kind == "tasks":
            return f"it started more processes and threads than its limit of {self.limit} allows ({self.seen} seen)"
        what = "its memory" if self.kind == "memory" else "what it wrote to disk"
        return f"{what} went above its limit of {words(self.limit)} ({words(self.seen)} seen)"


_OUTCOMES: Mapping[Kind, Literal["over_memory", "over_processes", "over_disk"]] = {
    "memory": "over_memory",
    "tasks": "over_processes",
    "disk": "over_disk",
}


def limits_for(asked_memory_bytes: int | None, directory: Path) -> Limits:
    """The limits of a launch that writes below `directory`; `asked_memory_bytes` is the stack's own."""
    memory = memory_bytes()
    disk = int(shutil.disk_usage(directory).free * DISK_SHARE)
    return Limits(
        memory_bytes=asked_memory_bytes or int(memory * MEMORY_SHARE),
        tasks=max(LEAST_TASKS, TASKS_PER_CORE * (os.cpu_count() or 1)),
        disk_bytes=disk,
        file_bytes=max(disk, memory),
        place=find_place(),
    )


def counted_inside(proc: Path = Path("/proc/self")) -> bool:
    """Whether the kernel counts a sandbox's processes for RLIMIT_NPROC: not for the machine's own root."""
    if os.geteuid() != 0:
        return True
    try:
        first = (proc / "uid_map").read_text().split()[:3]
    except OSError:
        return False
    return len(first) == 3 and first[1] != "0"


def exceeded_in(report: bytes) -> Exceeded | None:
    """The keeper's last words about a limit; None when it ended for another reason or said nothing."""
    found = _document(report).get("exceeded")
    if not isinstance(found, dict) or found.get("kind") not in _OUTCOMES:
        return None
    return Exceeded(kind=found["kind"], limit=int(found["limit"]), seen=int(found["seen"]))


def held_in(report: bytes) -> Mapping[str, str]:
    """How the keeper held each limit, by its kind."""
    found = _document(report).get("held")
    return {str(kind): str(how) for kind, how in found.items()} if isinstance(found, dict) else {}


def _document(report: bytes) -> dict[str, object]:
    try:
        document = json.loads(report)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
