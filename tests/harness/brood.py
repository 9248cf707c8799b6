"""A command with children that try to outlive it, one of every kind; run as a script: `brood.py TOKEN exit|hang`.

Each child carries the token as its last argument. Standard library only.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"]


def forked() -> None:
    pass


def own_session() -> None:
    os.setsid()


def double_forked() -> None:
    """Re-parented: its parent, a session leader, is gone."""
    os.setsid()
    if os.fork():
        os._exit(0)


def orphaned() -> None:
    """Re-parented, in the session and group of the command."""
    if os.fork():
        os._exit(0)


def own_group() -> None:
    os.setpgid(0, 0)


def without_hangup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def without_pipes() -> None:
    """Holds nothing of its parent's; all others hold its output pipe."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def stopped() -> None:
    """Asleep by SIGSTOP, which only SIGKILL ends."""
    if (pid := os.fork()) == 0:
        os.execv(SLEEP[0], [*SLEEP, sys.argv[1]])
    os.kill(pid, signal.SIGSTOP)
    os._exit(0)


KINDS: tuple[Callable[[], None], ...] = (
    forked, own_session, double_forked, orphaned, own_group, without_hangup, deaf, without_pipes, stopped,
)  # fmt: skip


def main(token: str, ending: str) -> None:
    for kind in KINDS:
        if os.fork() == 0:
            kind()
            os.execv(SLEEP[0], [*SLEEP, token])
    sys.stdout.write("hatched\n")
    sys.stdout.flush()
    time.sleep(300 if ending == "hang" else 1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
