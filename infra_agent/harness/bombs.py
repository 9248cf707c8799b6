"""Launches that try to take the machine down: processes, memory, disk. Each must be stopped at its limit.

Each runs in a sandbox of its own under small limits, through the same keeper as an engine, and stops by itself far
below anything that could hurt. Covered: what a limit stops, and how it is held here. Not covered: CPU time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from infra_agent.harness.limits import Kind, Limits
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import Walls

_TIMEOUT_S = 20.0
_STOP_S = 3.0
_HELD_INSIDE = "stopped by the kernel"
_TASKS = 60
_MEMORY_BYTES = 64 << 20
_DISK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bomb:
    """`program` prints `_HELD_INSIDE` when the kernel stops it; else it waits to be ended by the keeper."""

    name: str
    kind: Kind
    tried: str
    program: str
    limits: Limits


BOMBS = (
    Bomb(
        name="processes bounded",
        kind="tasks",
        tried=f"fork without end under a limit of {_TASKS}",
        limits=Limits(tasks=_TASKS),
        program=f"""
import os, time
try:
    for _ in range(5 * {_TASKS}):
        if os.fork() == 0:
            time.sleep({_TIMEOUT_S}); os._exit(0)
except BlockingIOError:
    print({_HELD_INSIDE!r}, flush=True); os._exit(0)
time.sleep({_TIMEOUT_S})
""",
    ),
    Bomb(
        name="memory bounded",
        kind="memory",
        tried=f"fill memory under a limit of {_MEMORY_BYTES >> 20} MiB",
        limits=Limits(memory_bytes=_MEMORY_BYTES),
        program=f"""
import time
blocks = []
for _ in range(4):
    blocks.append(b"x" * {_MEMORY_BYTES // 2})
time.sleep({_TIMEOUT_S})
""",
    ),
    Bomb(
        name="disk bounded",
        kind="disk",
        tried=f"fill its directory under a limit of {_DISK_BYTES >> 20} MiB",
        limits=Limits(disk_bytes=_DISK_BYTES),
        program=f"""
import time
for number in range(4):
    with open(str(number), "wb") as file:
        file.write(b"x" * {_DISK_BYTES // 2})
time.sleep({_TIMEOUT_S})
""",
    ),
)


def throw_bombs(walls: Walls, folder: Path, limits: Limits) -> tuple[dict[str, str], Mapping[str, str]]:
    """Throw all at once: {name: what got through, empty when it was stopped}, and {kind: how it is held here}.

    `limits.place` says where control groups can be made.
    """
    with ThreadPoolExecutor(len(BOMBS)) as pool:
        ends = list(pool.map(lambda bomb: _throw(bomb, walls, folder / bomb.kind, limits), BOMBS))
    held = {kind: how for _, ways in ends for kind, how in ways.items()}
    return {bomb.name: seen for bomb, (seen, _) in zip(BOMBS, ends, strict=True)}, held


def _throw(bomb: Bomb, walls: Walls, folder: Path, limits: Limits) -> tuple[str, Mapping[str, str]]:
    folder.mkdir()
    process = ManagedProcess.start(
        [str(Path(sys.executable).resolve()), "-I", "-S", "-c", bomb.program],
        env={"PATH": "/usr/bin:/bin"},
        cwd=folder,
        log_path=folder.with_suffix(".log"),
        walls=walls,
        writable=[folder],
        limits=bomb.limits.at(limits.place),
    )
    deadline = time.monotonic() + _TIMEOUT_S / 2
    while process.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    timed_out = process.alive()
    process.stop(_STOP_S)
    exceeded, lines = process.exceeded, process.tail(3)
    if (exceeded is not None and exceeded.kind == bomb.kind) or _HELD_INSIDE in lines:
        return "", process.held
    return "it was not stopped" if timed_out else f"it ended otherwise: {' '.join(lines)}", process.held
