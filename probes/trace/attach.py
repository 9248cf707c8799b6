"""Attaches py-spy to a running Python process for a while, and reads what it recorded.

Attaching slows the process: `scripts/trace_overhead.py` measures by how much, and nothing attached runs inside a timed
window (an import contract forbids it).
Covered: processes that end meanwhile, that are not Python, that may not be looked into; a recording cut short.
Not covered: processes in containers whose Python is not visible here.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from probes.base import Observation
from probes.trace.profile.run import profile
from probes.trace.profile.source import UnreadableTrace

RATE_HZ = 100
STOP_S = 30.0
GONE = ("No such process", "Failed to open process", "No such file or directory")
NOT_ALLOWED = ("Permission", "Operation not permitted", "root", "ptrace")
NOT_PYTHON = ("Failed to find python version", "Failed to find a python interpreter", "not a python", "python version")


class AttachFailed(ValueError):
    """Nothing was recorded; the message says why and what would help."""


def spy_path() -> Path:
    """The py-spy of this environment, or the one on the path."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise AttachFailed("py-spy is not installed: pip install py-spy")
    return Path(found)


@contextmanager
def attached(pid: int, out: Path, *, rate_hz: int = RATE_HZ, pausing: bool = True) -> Iterator[None]:
    """Record a process inside the block into a speedscope file.

    `pausing` stops the process for each sample, so that stacks are consistent; without it samples may be torn, and the
    process runs on. AttachFailed when py-spy cannot attach.
    """
    if not _runs(pid):
        raise AttachFailed(f"process {pid} does not exist (any more)")
    command = [str(spy_path()), "record", "--pid", str(pid), "--format", "speedscope", "--output", str(out)]
    command += [
        "--rate",
        str(rate_hz),
        "--duration",
        "unlimited",
        "--threads",
        *(() if pausing else ("--nonblocking",)),
    ]
    with tempfile.TemporaryFile() as said:
        spy = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
        try:
            _let_begin(spy)
            yield
        finally:
            _end(spy)
        if not out.exists() or not out.stat().st_size:
            said.seek(0)
            raise AttachFailed(_why(pid, said.read().decode("utf-8", "replace")))


def record(pid: int, seconds: float, *, rate_hz: int = RATE_HZ, pausing: bool = True) -> Observation:
    """What a process did for some seconds. AttachFailed, or UnreadableTrace for a recording that is no good."""
    with tempfile.TemporaryDirectory(prefix="infra-agent-spy-") as folder:
        out = Path(folder) / "recording.json"
        with attached(pid, out, rate_hz=rate_hz, pausing=pausing):
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s and _runs(pid):
                time.sleep(min(0.1, seconds))
        try:
            return profile(out)
        except UnreadableTrace as error:
            raise AttachFailed(f"the recording of process {pid} is not complete: {error}") from error


def _runs(pid: int) -> bool:
    """Whether the process is there and has not ended; one that its parent has not yet waited for has."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _let_begin(spy: subprocess.Popen[bytes]) -> None:
    """Give py-spy the time to read the interpreter's memory, or to fail."""
    for _ in range(10):
        if spy.poll() is not None:
            return
        time.sleep(0.05)


def _end(spy: subprocess.Popen[bytes]) -> None:
    """An interrupt makes py-spy write its file."""
    if spy.poll() is None:
        spy.send_signal(signal.SIGINT)
    try:
        spy.wait(STOP_S)
    except subprocess.TimeoutExpired:
        spy.kill()
        spy.wait(STOP_S)


def _why(pid: int, said: str) -> str:
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "py-spy said nothing")
    if not _runs(pid) or any(word in said for word in GONE):
        return f"process {pid} is gone: {last}"
    if any(word in said for word in NOT_ALLOWED):
        return f"process {pid} may not be looked into: run as its user, or set kernel.yama.ptrace_scope to 0 ({last})"
    if any(word.lower() in said.lower() for word in NOT_PYTHON):
        return f"process {pid} runs no Python that py-spy knows (stripped or static interpreter?): {last}"
    return f"process {pid} was not recorded: {last}"
