"""Stands between the harness and an engine, so that no process of the engine outlives the harness.

Started as a script by `harness.process`; standard library only. Its standard input is the life-line: when it closes,
because the harness asked for it or died, every descendant is killed. As a child sub-reaper it inherits daemonised
children, so they stay findable. Exit code: the engine's, or 128 + signal.

Words before the command hand over inherited descriptors, all numbered above 3: `--stdin=FD` becomes the command's
standard input (default: /dev/null), `--answer=FD` its descriptor 3, and to `--report=FD` the keeper writes one line of
JSON at the end, the CPU time of all processes that were below it and the largest resident set among them.

Covered: children that fork, daemonise or start their own session, on Linux.
Not covered: a keeper that is itself killed with SIGKILL; other systems, where only the process group is killed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER = 36
_KILL_TIMEOUT_S = 5.0
_OPTIONS = ("--stdin=", "--answer=", "--report=")
_ANSWER_FD = 3


def descendants(root: int) -> list[int]:
    """All live processes below `root`, by the parent links in /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():  # noqa: PTH208, PTH112
        if name.isdigit():
            parent = _parent(name)
            if parent is not None:
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def main(argv: list[str]) -> int:
    """Run a command, wait for its end or for the end of the life-line, and leave nothing behind."""
    given, argv = _split(argv)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    try:
        engine = _spawn(argv, given)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]}: {error.strerror}\n")
        return 127
    status = _watch(engine, wake_read)
    killed = _kill_all(engine)
    _report(given)
    return _exit_code(status if status is not None else killed)


def _split(argv: list[str]) -> tuple[dict[str, int], list[str]]:
    """Descriptors handed over, by option, and the command behind them."""
    given: dict[str, int] = {}
    while argv and argv[0].startswith(_OPTIONS):
        name, _, number = argv[0].partition("=")
        given[name] = int(number)
        argv = argv[1:]
    return given, argv


def _spawn(argv: list[str], given: dict[str, int]) -> int:
    """Start the command with its descriptors in place; the keeper keeps no copy that would hold a pipe open."""
    if "--report" in given:
        os.set_inheritable(given["--report"], False)
    handed = [(given[name], target) for name, target in (("--stdin", 0), ("--answer", _ANSWER_FD)) if name in given]
    actions: list[tuple[object, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for source, target in handed]
    actions += [(os.POSIX_SPAWN_CLOSE, source) for source, _ in handed]
    try:
        return os.posix_spawnp(argv[0], argv, _environment(), file_actions=actions, setsid=True)
    finally:
        for source, _ in handed:
            os.close(source)


def _environment() -> dict[bytes, bytes]:
    """What this process was started with: the interpreter adds a locale of its own to `os.environ`."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = (entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            return dict(pairs)
    except OSError:
        return dict(os.environb)


def _report(given: dict[str, int]) -> None:
    if "--report" not in given:
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak_rss_bytes = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    # Written by hand, here as elsewhere: every module that is imported delays the start of every engine.
    line = f'{{"cpu_s": {used.ru_utime + used.ru_stime:.6f}, "peak_rss_bytes": {peak_rss_bytes}}}\n'
    try:
        os.write(given["--report"], line.encode())
    except OSError:
        return


def _watch(engine: int, wake: int) -> int | None:
    """Wait until the engine ends (its wait status) or the harness lets go (None)."""
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            signals = os.read(wake, 4096)
            status = _reap(engine)
            if status is not None:
                return status
            if any(number != signal.SIGCHLD for number in signals):
                return None
        if 0 in ready and not os.read(0, 1):
            return None


def _reap(engine: int) -> int | None:
    """Collect ended children; the engine's wait status if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == engine:
            found = status


def _kill_all(engine: int) -> int | None:
    status = None
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    _kill(os.killpg, engine)
    while time.monotonic() < deadline:
        ended = _reap(engine)
        status = ended if ended is not None else status
        left = descendants(os.getpid())
        if not left:
            break
        for pid in left:
            _kill(os.kill, pid)
        time.sleep(0.005)
    return status


def _kill(how: Callable[[int, int], None], target: int) -> None:
    try:
        how(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _exit_code(status: int | None) -> int:
    if status is None:
        return 128 + signal.SIGKILL
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
