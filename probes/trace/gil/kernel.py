"""What the kernel says of a process's threads: where each waits, and how long it was ready but not running.

Covered: Linux `/proc/PID/task`. Not covered: other systems (no rows, and the reason says so).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thread over the watched time. `waits`: share of samples by wait channel; "0" or "" is running or unknown."""

    tid: int
    name: str
    waits: dict[str, float]
    run_delay_share: float
    running_share: float

    @property
    def futex_share(self) -> float:
        """Share of samples in which it waited for a lock, the GIL's among others."""
        return sum(share for channel, share in self.waits.items() if "futex" in channel)


def watch(pid: int, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> list[Task]:
    """Sample all threads. Raises ProcessLookupError when the process is gone."""
    folder = Path(f"/proc/{pid}/task")
    if not folder.exists():
        raise ProcessLookupError(f"process {pid} is gone")
    channels: dict[int, Counter[str]] = defaultdict(Counter)
    first: dict[int, tuple[int, int]] = {}
    last: dict[int, tuple[int, int]] = {}
    names: dict[int, str] = {}
    began_s = clock()
    while clock() < began_s + seconds:
        for task in folder.iterdir() if folder.exists() else ():
            tid = int(task.name)
            channels[tid][_text(task / "wchan")] += 1
            ran = _schedstat(task)
            if ran is not None:
                first.setdefault(tid, ran)
                last[tid] = ran
            names.setdefault(tid, _text(task / "comm"))
        time.sleep(EVERY_S)
    wall_s = clock() - began_s
    return [_task(tid, names[tid], counts, first.get(tid), last.get(tid), wall_s) for tid, counts in channels.items()]


def _task(
    tid: int,
    name: str,
    counts: Counter[str],
    first: tuple[int, int] | None,
    last: tuple[int, int] | None,
    wall_s: float,
) -> Task:
    ran_s, delay_s = ((last[i] - first[i]) / 1e9 for i in (0, 1)) if first and last else (0.0, 0.0)
    total = sum(counts.values())
    return Task(
        tid=tid, name=name, waits={channel: count / total for channel, count in counts.most_common()},
        run_delay_share=delay_s / wall_s, running_share=ran_s / wall_s,
    )  # fmt: skip


def _schedstat(task: Path) -> tuple[int, int] | None:
    parts = _text(task / "schedstat").split()
    return (int(parts[0]), int(parts[1])) if len(parts) >= 2 else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
