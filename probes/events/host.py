"""What this machine knows of a local server and of who asks it: CPU time, and time spent waiting for a CPU.

Linux counts for every thread how long it was runnable without running. A client that wants the CPU and does not get it
is starved, whatever the server does; this is the cheapest proof of it.
Covered: the processes behind a local port, processes of this machine connected to it, their threads.
Not covered: servers and clients elsewhere or in another network namespace, processes of other users; all of these are
absent, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from probes.events.signals import Signal
from probes.load.hosts import is_local

NANO = 1e9
PROC = Path("/proc")


class Used(NamedTuple):
    """CPU use of one process since it began: running, runnable but waiting, and its busiest thread, in seconds."""

    run_s: float
    wait_s: float
    threads: Mapping[int, float]


@dataclass(slots=True, kw_only=True)
class Watched:
    """One process as first and as last seen."""

    pid: int
    first: Used
    last: Used

    @property
    def run_s(self) -> float:
        """CPU seconds in between."""
        return max(0.0, self.last.run_s - self.first.run_s)

    @property
    def wait_s(self) -> float:
        """Seconds in between in which a thread could have run and did not."""
        return max(0.0, self.last.wait_s - self.first.wait_s)

    @property
    def busiest_thread_s(self) -> float:
        """CPU seconds of the thread that used most."""
        return max((used - self.first.threads.get(tid, 0.0) for tid, used in self.last.threads.items()), default=0.0)


@dataclass(slots=True)
class HostWatch:
    """Watches both ends of a local port. `without`: processes that are neither, such as this one."""

    url: str
    without: frozenset[int] = field(default_factory=lambda: frozenset({os.getpid()}))
    servers: dict[int, Watched] = field(default_factory=dict)
    clients: dict[int, Watched] = field(default_factory=dict)
    blind: str = ""
    """Why nothing can be seen; empty when something can."""

    def look(self) -> None:
        """One look; the first one of each process is its zero."""
        parts = urlsplit(self.url)
        if not is_local(parts.hostname or ""):
            self.blind = "the server is on another machine"
            return
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            links = psutil.net_connections(kind="tcp")
        except (psutil.Error, OSError) as error:
            self.blind = f"this user may not see connections ({error})"
            return
        owners = {c.pid for c in links if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port and c.pid}
        askers = {c.pid for c in links if c.raddr and c.raddr.port == port and c.pid} - owners
        self.blind = "" if owners else f"no process of this network namespace is seen to listen on port {port}"
        for pid in owners:
            for each in (pid, *_children(pid)):
                _note(self.servers, each)
        for pid in askers - self.without:
            _note(self.clients, pid)

    def command_line(self) -> list[str]:
        """The arguments of the process that listens; empty when it cannot be seen."""
        for pid in self.servers:
            try:
                return list(psutil.Process(pid).cmdline())
            except psutil.Error:
                continue
        return []

    def signals(self, window_s: float) -> list[Signal]:
        """CPU facts of both ends over the window."""
        if window_s <= 0 or self.blind:
            why = self.blind or "the window has no length"
            names = ("server_cpu_cores", "client_cpu_cores", "client_cpu_wait_share")
            return [Signal(name=name, value=None, unit="", quality="absent", source=why) for name in names]
        return [*_server(self.servers, window_s), *_client(self.clients, window_s)]


def _server(found: Mapping[int, Watched], window_s: float) -> list[Signal]:
    source = f"schedstat of {len(found)} processes behind the port"
    cores = sum(each.run_s for each in found.values()) / window_s
    wait = sum(each.wait_s for each in found.values()) / window_s
    return [
        Signal(name="server_cpu_cores", value=round(cores, 4), unit="cores", quality="exact", source=source),
        Signal(name="server_cpu_wait_cores", value=round(wait, 4), unit="cores", quality="exact", source=source),
    ]


def _client(found: Mapping[int, Watched], window_s: float) -> list[Signal]:
    if not found:
        why = "no process of this machine was seen connected to the port"
        return [Signal(name="client_cpu_wait_share", value=None, unit="", quality="absent", source=why)]
    worst = max(found.values(), key=lambda each: each.busiest_thread_s + each.wait_s)
    source = f"schedstat of process {worst.pid}, connected to the port"
    thread = worst.busiest_thread_s / window_s
    return [
        Signal(
            name="client_cpu_cores",
            value=round(worst.run_s / window_s, 4),
            unit="cores",
            quality="exact",
            source=source,
        ),
        Signal(
            name="client_cpu_wait_share",
            value=round(worst.wait_s / window_s, 4),
            unit="1",
            quality="exact",
            source=source,
        ),
        Signal(name="client_busiest_thread", value=round(thread, 4), unit="cores", quality="exact", source=source),
    ]


def _note(into: dict[int, Watched], pid: int) -> None:
    used = used_by(pid)
    if used is None:
        return
    if pid in into:
        into[pid].last = used
    else:
        into[pid] = Watched(pid=pid, first=used, last=used)


def used_by(pid: int) -> Used | None:
    """What a process used so far; None when it is gone or this system does not tell."""
    run_ns = wait_ns = 0
    threads: dict[int, float] = {}
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            try:
                run, wait, _ = (task / "schedstat").read_text().split()
            except (OSError, ValueError):
                continue
            run_ns, wait_ns = run_ns + int(run), wait_ns + int(wait)
            threads[int(task.name)] = int(run) / NANO
    except OSError:
        return None
    return Used(run_ns / NANO, wait_ns / NANO, threads) if threads else None


def _children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []
