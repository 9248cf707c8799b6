"""Facts about a tree of processes: who belongs to it, how much memory and CPU time it used, is it gone.

Covered: processes that die while they are looked at.
Not covered: children that started and ended between two looks, except for their CPU time once reaped.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

import psutil


def members(root: int) -> list[psutil.Process]:
    """The process and everything below it; empty when it is gone."""
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def peak_rss_bytes(processes: Iterable[psutil.Process]) -> int:
    """Sum of the peak resident sets, as the kernel recorded them. Pages shared by several count once for each."""
    return sum(_peak_rss_bytes(process) for process in processes)


def cpu_time_s(processes: Iterable[psutil.Process]) -> float:
    """CPU time of the processes and of their children already reaped."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to each that still exists."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def wait_gone(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until they are gone or only zombies; what is left after the time-out."""
    deadline = time.monotonic() + timeout_s
    left = list(processes)
    while True:
        left = [process for process in left if _lives(process)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.005)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _peak_rss_bytes(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status")
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0
