"""Stands between the harness and an engine, so that no process of the engine outlives the harness.

Started as a script by `harness.process`; standard library only. Its standard input is the life-line: when it closes,
because the harness asked for it or died, every descendant is killed. As a child sub-reaper it inherits daemonised
children, so they stay findable. Exit code: the engine's, or 128 + signal.

Words before the command hand over inherited descriptors, all numbered above 3: `--stdin=FD` becomes the command's
standard input (default: /dev/null), `--answer=FD` its descriptor 3, `--hand=FD` keeps its number, and to `--report=FD`
the keeper writes one line of JSON at the end: the CPU time of all processes that were below it, the largest resident
set among them, and what was exceeded if that ended them. `--limits=JSON` are those of `watch.py`; `--tidy=PATH` names a
socket that is to go, with its directory, at the end.

Covered: children that fork, daemonise or start their own session, on Linux.
Not covered: a keeper that is itself killed with SIGKILL; other systems, where only the process group is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_KILL_TIMEOUT_S = 5.0
_LOOK_S = 0.1
_OPTIONS = ("--stdin=", "--answer=", "--report=", "--hand=")
_LIMITS, _TIDY = "--limits=", "--tidy="
_WATCH = "watch"
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
    given, texts, argv = _split(argv)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _leave_keyring()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    watch = _watch_for(json.loads(texts[_LIMITS])) if _LIMITS in texts else None
    if watch is not None:
        watch.prepare()
    try:
        engine = _spawn(argv, given)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]}: {error.strerror}\n")
        if watch is not None:
            watch.ended()
        return 127
    try:
        if watch is not None:
            watch.started()
        status, exceeded = _wait(engine, wake_read, watch)
    finally:
        killed = _kill_all(engine)
    facts = {}
    if watch is not None:
        facts = {"exceeded": exceeded or watch.ended(), "held": watch.held()}
    _report(given, facts)
    _tidy(texts.get(_TIDY))
    return _exit_code(status if status is not None else killed)


def _split(argv: list[str]) -> tuple[dict[str, int], dict[str, str], list[str]]:
    """Descriptors handed over and texts, by option; and the command behind them."""
    given: dict[str, int] = {}
    texts: dict[str, str] = {}
    while argv and argv[0].startswith((*_OPTIONS, _LIMITS, _TIDY)):
        name, _, value = argv[0].partition("=")
        if argv[0].startswith(_OPTIONS):
            given[name] = int(value)
        else:
            texts[f"{name}="] = value
        argv = argv[1:]
    return given, texts, argv


def _watch_for(limits: dict[str, Any]) -> Any:
    """The watch over these limits. Last on the path, so that no neighbour takes the place of a standard module."""
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    return __import__(_WATCH).Watch(limits)


def _tidy(path: str | None) -> None:
    """Take away a socket with its directory: a harness that was killed cannot."""
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108
            os.rmdir(os.path.dirname(path))  # noqa: PTH106, PTH120


def _leave_keyring() -> None:
    """Take a new, empty session keyring, so that keys of the harness's session are not the command's."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)


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
        for source in [source for source, _ in handed] + [given[name] for name in ("--hand",) if name in given]:
            os.close(source)


def _environment() -> dict[bytes, bytes]:
    """What this process was started with: the interpreter adds a locale of its own to `os.environ`."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = (entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            return dict(pairs)
    except OSError:
        return dict(os.environb)


def _report(given: dict[str, int], more: dict[str, Any]) -> None:
    if "--report" not in given:
        return
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    facts = {"cpu_s": used.ru_utime + used.ru_stime, "peak_rss_bytes": used.ru_maxrss * unit, **more}
    with contextlib.suppress(OSError):
        os.write(given["--report"], json.dumps(facts).encode() + b"\n")


def _wait(engine: int, wake: int, watch: Any) -> tuple[int | None, object]:
    """Wait until the engine ends (its wait status), the harness lets go, or a limit is exceeded (what was seen)."""
    while True:
        ready, _, _ = select.select([0, wake], [], [], None if watch is None else _LOOK_S)
        if wake in ready:
            signals = os.read(wake, 4096)
            status = _reap(engine)
            if status is not None:
                return status, None
            if any(number != signal.SIGCHLD for number in signals):
                return None, None
        if 0 in ready and not os.read(0, 1):
            return None, None
        exceeded = None if watch is None else watch.look()
        if exceeded is not None:
            return None, exceeded


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
