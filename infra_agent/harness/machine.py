"""The machine a run is measured on, and who else is using it.

Covered: operating system, processor, the cores and memory this process may use (affinity and cgroups), accelerators,
and busy processes beside ours.
Not covered: frequency scaling, thermal state, and neighbours outside this virtual machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra_agent.harness import tree
from infra_agent.harness.environment import tool_env
from infra_agent.harness.mounts import gpu_nodes
from infra_agent.harness.text import clean_line

BUSY_SHARE = 0.2
_SMI_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another process that uses the machine. `cpu_share`: of one core, over the sample."""

    pid: int
    name: str
    cpu_share: float

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}) {self.cpu_share:.0%} of a core"


def describe_machine() -> dict[str, str | int | float]:
    """What the figures of a run depend on. A fact that cannot be read is left out."""
    facts: dict[str, str | int | float] = {
        "os": _os_name(),
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "memory_bytes": memory_bytes(),
        "python": platform.python_version(),
        "gpus": _gpus(),
    }
    return {name: value for name, value in facts.items() if value != ""}


def usable_cores(root: Path = Path("/sys/fs/cgroup")) -> float:
    """Cores this process may use: affinity, cut down by a cgroup quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    quota = _cpu_quota(root)
    return float(count) if quota is None else min(float(count), quota)


def memory_bytes() -> int:
    """Memory that this process and its children may use: the machine's, cut down by a cgroup."""
    total = int(psutil.virtual_memory().total)
    return min(total, _cgroup_memory_bytes() or total)


def load_now(own_pids: Collection[int] = (), sample_s: float = 0.2) -> dict[str, float | str]:
    """Load average and the processes beside ours that use more than a fifth of a core now."""
    neighbours = busy_neighbours(own_pids, sample_s)
    with contextlib.suppress(OSError):
        one, five, _ = os.getloadavg()
        averages = {"load_1min": round(one, 2), "load_5min": round(five, 2)}
        return {**averages, "busy": len(neighbours), "busy_processes": _list(neighbours)}
    return {"busy": len(neighbours), "busy_processes": _list(neighbours)}


def busy_neighbours(own_pids: Collection[int], sample_s: float) -> tuple[Neighbour, ...]:
    """Processes outside the trees of `own_pids` and of this process that used more than a fifth of a core."""
    before = cpu_times()
    started = time.monotonic()
    time.sleep(sample_s)
    elapsed_s = time.monotonic() - started
    ours = {process.pid for pid in {os.getpid(), *own_pids} for process in tree.members(pid)}
    found = []
    for process, used_s in cpu_times().items():
        share = (used_s - before.get(process, used_s)) / elapsed_s
        if process.pid not in ours and share > BUSY_SHARE:
            with contextlib.suppress(psutil.Error):
                found.append(Neighbour(pid=process.pid, name=clean_line(process.name()), cpu_share=round(share, 2)))
    return tuple(sorted(found, key=lambda neighbour: -neighbour.cpu_share))


def cpu_times() -> Mapping[psutil.Process, float]:
    """CPU seconds of every process that can be seen."""
    times = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            used = process.cpu_times()
            times[process] = float(used.user + used.system)
    return times


def _list(neighbours: tuple[Neighbour, ...]) -> str:
    return ", ".join(map(str, neighbours[:5]))


def _os_name() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return platform.system()


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus() -> str:
    """Names by nvidia-smi where it works, else the device nodes; empty without any."""
    smi = shutil.which("nvidia-smi")
    if smi:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [smi, "--query-gpu=name,memory.total", "--format=csv,noheader"]
            done = subprocess.run(
                command, env=tool_env(os.environ), capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=True
            )
            return "; ".join(clean_line(line) for line in done.stdout.splitlines() if line.strip())
    return ", ".join(str(node) for node in gpu_nodes())


def _cpu_quota(root: Path) -> float | None:
    """Cores allowed by cgroup v2 or v1; None without a limit."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = (root / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        limit = int((root / "cpu/cpu.cfs_quota_us").read_text())
        return None if limit <= 0 else limit / int((root / "cpu/cpu.cfs_period_us").read_text())
    return None


def _cgroup_memory_bytes(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            return int((root / name).read_text())
    return None
