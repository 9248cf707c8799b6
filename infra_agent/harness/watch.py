"""Keeps one launch within its limits, from the keeper's side; says what was exceeded when something was.

Loaded by `keeper.py` when limits are given; standard library only. A control group holds memory and processes where
one can be made; the largest file is an rlimit; the rest is looked at several times a second, and the launch ends
when it is above a limit. Whatever happens, the kernel's own out-of-memory killer is told to take the launch first.

Covered: anonymous and shared memory, files in the sandbox's in-memory directories, processes and threads, files below
the writable directories, deleted but open ones too.
Not covered: without a control group, what is taken and given back between two looks, and memory files that no process
has mapped.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

_SCAN_S = 0.1
_DISK_LOOK_S = 1.0
_COST_SHARE = 0.01
"""Most of one core that looking may take."""
_OOM, _OOM_SCORE = "/proc/self/oom_score_adj", 500
_PRIORITY = -5
_PAGE = os.sysconf("SC_PAGE_SIZE")
Breach = dict[str, Any]


class _Task(NamedTuple):
    """What /proc/PID/stat says of one process."""

    pid: int
    parent: int
    threads: int
    resident_bytes: int


class Watch:
    """One launch under its limits. `limits`: memory_bytes, tasks, disk_bytes, file_bytes, directories, memory_files
    (in-memory directories inside the sandbox), group (a control group to be made), own_group (the keeper's) and
    counted_inside (an rlimit inside the sandbox holds `tasks` too); each may be missing.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = limits
        self._group: str | None = limits.get("group")
        self._own_group = str(limits.get("own_group", ""))
        self._keeper = os.getpid()
        self._ours: dict[int, bool] = {}
        self._pids: list[int] = []
        self._last_pid = ""
        self._next_scan_s = self._next_disk_s = self._next_exact_s = 0.0
        self._disk_before = 0
        self._oom_score = "0"

    def prepare(self) -> None:
        """Before the command is started: what it inherits from here."""
        with contextlib.suppress(OSError, ValueError):
            most = int(self._limits["file_bytes"]) if "file_bytes" in self._limits else resource.RLIM_INFINITY
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        self._oom_score = _read(_OOM).strip() or "0"
        _write(_OOM, _OOM_SCORE)
        self._disk_before = _size_below(self._limits.get("directories", ()))
        if self._group is not None and not self._enter():
            self._group = None

    def started(self) -> None:
        """After the command was started: this process goes back to where it was, a bit ahead of the command."""
        _write(_OOM, self._oom_score)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        if self._group is not None:
            _write(f"{self._own_group}/cgroup.procs", os.getpid())

    def held(self) -> dict[str, str]:
        """How each limit is held, by its kind."""
        fast = "control group" if self._group is not None else "watched"
        names = {"memory": "memory_bytes", "tasks": "tasks", "disk": "disk_bytes"}
        ways = {"memory": fast, "tasks": fast, "disk": "watched"}
        if self._group is None and self._limits.get("counted_inside"):
            ways["tasks"] = "rlimit"
        return {kind: ways[kind] for kind, name in names.items() if name in self._limits}

    def look(self) -> Breach | None:
        """What is above its limit now."""
        now_s = time.monotonic()
        self._refresh(now_s)
        found = None
        if self._group is None:
            tasks = [task for task in map(_task, self._pids) if task is not None]
            found = self._tasks_breach(tasks) or self._memory_breach(tasks, now_s)
        if found is None and now_s >= self._next_disk_s:
            found = self._disk_breach()
            self._next_disk_s = time.monotonic() + max(_DISK_LOOK_S, (time.monotonic() - now_s) / _COST_SHARE)
        return found

    def ended(self) -> Breach | None:
        """After everything is gone: whether the kernel ended it for its memory; the control group is removed."""
        if self._group is None:
            return None
        killed = _number_in(f"{self._group}/memory.events", "oom_kill")
        _write(f"{self._group}/cgroup.kill", 1)
        for _ in range(50):
            try:
                os.rmdir(self._group)  # noqa: PTH106
                break
            except OSError:
                time.sleep(0.02)
        limit = int(self._limits.get("memory_bytes", 0))
        return _breach("memory", limit, limit) if killed else None

    def _enter(self) -> bool:
        """Make the control group, write its limits and join it, so that the command is born in it."""
        values = {"memory.max": self._limits.get("memory_bytes"), "pids.max": self._limits.get("tasks")}
        try:
            os.mkdir(str(self._group))  # noqa: PTH102
        except OSError:
            return False
        held = all(_write(f"{self._group}/{name}", value) for name, value in values.items() if value is not None)
        for name, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
            _write(f"{self._group}/{name}", value)
        if held and _write(f"{self._group}/cgroup.procs", os.getpid()):
            return True
        with contextlib.suppress(OSError):
            os.rmdir(str(self._group))  # noqa: PTH106
        return False

    def _refresh(self, now_s: float) -> None:
        """Find the launch's processes again, if any process of this machine was born since the last time."""
        last = _read("/proc/loadavg").split()[-1:]
        if now_s < self._next_scan_s or last == [self._last_pid]:
            return
        self._last_pid = last[0] if last else ""
        pids = {int(name) for name in _entries("/proc") if name.isdigit()}
        self._ours = {pid: ours for pid, ours in self._ours.items() if pid in pids}
        self._pids = sorted(pid for pid in pids - {self._keeper} if self._is_ours(pid))
        self._next_scan_s = now_s + max(_SCAN_S, (time.monotonic() - now_s) / _COST_SHARE)

    def _is_ours(self, pid: int) -> bool:
        """Whether a process is below this one. Who was born outside stays outside, so each is asked only once."""
        chain = []
        while pid not in self._ours and pid not in (0, self._keeper):
            task = _task(pid)
            if task is None:
                # It ended just now, and its children have another parent by now: ask again the next time.
                self._last_pid = ""
                return False
            chain.append(pid)
            pid = task.parent
        found = pid == self._keeper or self._ours.get(pid, False)
        self._ours |= dict.fromkeys(chain, found)
        return found

    def _tasks_breach(self, tasks: list[_Task]) -> Breach | None:
        limit = self._limits.get("tasks")
        if limit is None:
            return None
        seen = sum(task.threads for task in tasks)
        return _breach("tasks", int(limit), seen) if seen > int(limit) else None

    def _memory_breach(self, tasks: list[_Task], now_s: float) -> Breach | None:
        limit = self._limits.get("memory_bytes")
        if limit is None or now_s < self._next_exact_s:
            return None
        files = self._memory_files()
        if sum(task.resident_bytes for task in tasks) + files <= int(limit):
            return None
        seen = _exact_bytes(self._pids, files)
        self._next_exact_s = now_s + (time.monotonic() - now_s) / _COST_SHARE
        return _breach("memory", int(limit), seen) if seen > int(limit) else None

    def _memory_files(self) -> int:
        """Bytes in the sandbox's in-memory directories; 0 as long as the sandbox is not set up."""
        names = self._limits.get("memory_files", ())
        for pid in reversed(self._pids if names else []):
            with contextlib.suppress(OSError):
                root = f"/proc/{pid}/root"
                if not os.path.samestat(os.stat(root), os.stat("/")):  # noqa: PTH116
                    found = [os.statvfs(root + name) for name in names if os.path.ismount(root + name)]
                    return sum((each.f_blocks - each.f_bfree) * each.f_frsize for each in found)
        return 0

    def _disk_breach(self) -> Breach | None:
        limit, directories = self._limits.get("disk_bytes"), self._limits.get("directories", ())
        if limit is None or not directories:
            return None
        seen = _size_below(directories) - self._disk_before + _deleted_bytes(self._pids, directories)
        return _breach("disk", int(limit), seen) if seen > int(limit) else None


def _breach(kind: str, limit: int, seen: int) -> Breach:
    return {"kind": kind, "limit": limit, "seen": seen}


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208
    except OSError:
        return []


def _task(pid: int) -> _Task | None:
    words = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(words) < 22:
        return None
    return _Task(pid, int(words[1]), int(words[17]), int(words[21]) * _PAGE)


def _exact_bytes(pids: Iterable[int], files: int) -> int:
    """Memory that cannot be dropped: each page once, shared pages by parts; files in memory once."""
    anonymous = shared = 0
    for pid in pids:
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            name, _, rest = line.partition(":")
            if name in ("Pss_Anon", "SwapPss"):
                anonymous += int(rest.split()[0]) * 1024
            elif name == "Pss_Shmem":
                shared += int(rest.split()[0]) * 1024
    return anonymous + max(shared, files)


def _size_below(directories: Iterable[str]) -> int:
    """Bytes on disk of everything below these directories; links are not followed."""
    total, queue = 0, list(directories)
    while queue:
        with contextlib.suppress(OSError), os.scandir(queue.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
    return total


def _deleted_bytes(pids: Iterable[int], directories: Iterable[str]) -> int:
    """Bytes of deleted files on the same disks that these processes still hold open, each file once."""
    disks = set()
    for directory in directories:
        with contextlib.suppress(OSError):
            disks.add(os.stat(directory).st_dev)  # noqa: PTH116
    seen: dict[tuple[int, int], int] = {}
    for path in (f"/proc/{pid}/fd/{name}" for pid in pids for name in _entries(f"/proc/{pid}/fd")):
        with contextlib.suppress(OSError):
            facts = os.stat(path)  # noqa: PTH116
            if facts.st_nlink == 0 and stat.S_ISREG(facts.st_mode) and facts.st_dev in disks:
                seen[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(seen.values())


def _number_in(path: str, name: str) -> int:
    for line in _read(path).splitlines():
        if line.startswith(f"{name} "):
            return int(line.split()[1])
    return 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def _write(path: str, value: int | str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(str(value))
    except OSError:
        return False
    return True
