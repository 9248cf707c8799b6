"""Who and what else was at work on this machine during a window, and whether that voids a block.

A neighbour that is always there is part of this machine's noise: both arms have it, and the noise floor holds it. What
voids a block is a change: more of it than in this run's earlier windows, or a processor that had to slow down.
Covered: CPU time of all others on the cores we may use (under a quota: of all others that can be seen), the busiest of
them by name, thermal throttling of CPUs and NVIDIA GPUs.
Not covered: memory bandwidth, disks, other users of a GPU; clocks that change without throttling.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from infra_agent.harness import tree
from infra_agent.harness.machine import BUSY_SHARE, Neighbour, cpu_times, usable_cores
from infra_agent.harness.text import clean_line
from infra_agent.ledger import kinds as k

TOLERATED_CORES = 0.25
"""More than this beyond what is usual in a run voids a block."""
TOLERATED_MADS = 4.5
"""Or more than this many median absolute deviations (three standard deviations), where neighbours come and go."""
CORES, NAMES, THROTTLED = "neighbour_cores", "neighbours", "throttled"
SYSFS = Path("/sys/devices/system/cpu")
_SMI_TIMEOUT_S = 5.0
_GPU_REASONS = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What others did during a window. `cores`: CPU time of others per second."""

    cores: float
    busiest: tuple[Neighbour, ...] = ()
    throttled: str = ""

    def signals(self) -> dict[str, float | str | bool]:
        """As facts of an observation."""
        names = ", ".join(map(str, self.busiest[:3]))
        found: dict[str, float | str | bool] = {CORES: round(self.cores, 3)}
        return {**found, **({NAMES: names} if names else {}), **({THROTTLED: self.throttled} if self.throttled else {})}


class Watch:
    """Looks at the machine when made, and again when asked."""

    def __init__(self, own_pids: Collection[int] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_s = clock()
        self._busy_s = _busy_s()
        self._own = _own_s(own_pids)
        self._each = cpu_times()
        self._throttles = _throttles()

    def seen(self, own_pids: Collection[int] = ()) -> Disturbance:
        """What others have done since. `own_pids`: roots of our own trees; this process's own is always ours."""
        elapsed_s = max(self._clock() - self._started_s, 1e-6)
        ours = _own_processes(own_pids)
        used_s = {
            process: now_s - self._each.get(process, 0.0)
            for process, now_s in cpu_times().items()
            if process.pid not in ours
        }
        others_s = _busy_s() - self._busy_s - (_own_s(own_pids) - self._own)
        return Disturbance(
            cores=max(0.0, (sum(used_s.values()) if _shares_cores() else others_s) / elapsed_s),
            busiest=_busiest(used_s, elapsed_s),
            throttled=_throttled(self._throttles),
        )


def _busiest(used_s: Mapping[psutil.Process, float], elapsed_s: float) -> tuple[Neighbour, ...]:
    found = []
    for process, seconds in sorted(used_s.items(), key=lambda item: -item[1]):
        if seconds / elapsed_s > BUSY_SHARE:
            with contextlib.suppress(psutil.Error):
                name = clean_line(process.name())
                found.append(Neighbour(pid=process.pid, name=name, cpu_share=round(seconds / elapsed_s, 2)))
    return tuple(found)


def _shares_cores() -> bool:
    """Whether a quota gives us a part of cores on which others may work without taking anything from us."""
    return hasattr(os, "sched_getaffinity") and usable_cores() < len(os.sched_getaffinity(0))


def what_disturbed(signals: Mapping[str, object], earlier: Sequence[float]) -> str:
    """Why a window with these signals may not be compared; empty when nothing unusual happened.

    `earlier`: CPU time of others per second in this run's earlier windows; without any there is nothing to go by.
    """
    if signals.get(THROTTLED):
        return f"throttled: {signals[THROTTLED]}"
    cores = signals.get(CORES)
    if not isinstance(cores, int | float) or not earlier:
        return ""
    usual = median(earlier)
    spread = median(abs(value - usual) for value in earlier)
    if cores <= usual + max(TOLERATED_CORES, TOLERATED_MADS * spread):
        return ""
    who = signals.get(NAMES) or "processes that came and went"
    return f"neighbour: {who}; others used {cores:.2f} cores where {usual:.2f} are usual in this run"


def others_before(observations: Mapping[str, k.ObservationMade]) -> list[float]:
    """CPU time of others per second in each load window so far."""
    seen = [made.observation.get("signals", {}).get(CORES) for made in observations.values()]
    return [float(cores) for cores in seen if isinstance(cores, int | float)]


def _busy_s() -> float:
    """CPU time used so far by everybody on the cores we may use, time stolen from this virtual machine included."""
    with contextlib.suppress(OSError, psutil.Error):
        each = psutil.cpu_times(percpu=True)
        ours = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(each))
        # The kernel counts a guest's time in `user` already.
        names = ("user", "nice", "system", "irq", "softirq", "steal")
        return float(sum(getattr(each[i], name, 0.0) for i in ours if i < len(each) for name in names))
    return 0.0


def _own_processes(own_pids: Collection[int]) -> dict[int, psutil.Process]:
    roots = {os.getpid(), *own_pids}
    return {process.pid: process for root in roots for process in tree.members(root)}


def _own_s(own_pids: Collection[int]) -> float:
    return tree.cpu_time_s(_own_processes(own_pids).values())


def _throttles() -> Mapping[str, int]:
    """Thermal throttle counters of the processors, where the kernel keeps them."""
    counts = {}
    for path in SYSFS.glob("cpu*/thermal_throttle/*_throttle_count"):
        with contextlib.suppress(OSError, ValueError):
            counts[str(path)] = int(path.read_text())
    return counts


def _throttled(before: Mapping[str, int]) -> str:
    hot = sum(count > before.get(path, count) for path, count in _throttles().items())
    parts = [f"{hot} CPU throttle counters rose"] if hot else []
    return "; ".join([*parts, *_gpu_throttled()])


def _gpu_throttled() -> list[str]:
    """What slows an NVIDIA GPU down now, by its own word."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return []
    fields = ",".join(f"clocks_event_reasons.{reason}" for reason in _GPU_REASONS)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [smi, f"--query-gpu=index,{fields}", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=True)
        rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
        return [
            f"GPU {row[0]} {reason.replace('_', ' ')}"
            for row in rows
            for reason, state in zip(_GPU_REASONS, row[1:], strict=False)
            if state == "Active"
        ]
    return []
