"""One writer per run: an advisory lock that the kernel drops when its holder dies, however it dies.

Covered: taking the lock, and asking whether a live process holds it.
Not covered: writers on different hosts of a file system without shared locks.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from infra_agent.errors import UsageError

_LOCK_FILE = "writer.lock"
_PID_FILE = "writer.pid"
_WAIT_S = 0.5
"""Longer than `has_writer` holds its probe lock, so that a listing never refuses a writer."""


def take(run_dir: Path) -> BaseFileLock:
    """Become the run's writer, or UsageError naming the run and the process that is."""
    lock = FileLock(run_dir / _LOCK_FILE, timeout=_WAIT_S, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        hint = "wait until it ends, or stop that process"
        raise UsageError(f"run {run_dir.name} is in use by {_holder(run_dir)}", where=str(run_dir), hint=hint) from None
    with suppress(OSError):
        (run_dir / _PID_FILE).write_text(str(os.getpid()))
    return lock


def has_writer(run_dir: Path) -> bool:
    """Whether a live process writes this run. Works on a run that may only be read."""
    try:
        fd = os.open(run_dir / _LOCK_FILE, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _holder(run_dir: Path) -> str:
    with suppress(OSError, ValueError):
        return f"process {int((run_dir / _PID_FILE).read_text())}"
    return "another process"
