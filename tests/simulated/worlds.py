"""What is simulated around a command line, put in place in its own process: exact time, and faults of the machine.

steady       time is exact, nothing else is wrong
eio:N        besides, the Nth flush of the ledger fails with an input/output error
limit:N      besides, no file may grow beyond N bytes
jump:S       the ledger's wall clock is set by S seconds (back when negative) at every seventh reading; windows are
             exact, all other clocks are real
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from simulated.steady import use_exact_windows, use_steady_time

from infra_agent.agent import start
from infra_agent.ledger import store


def enter(world: str) -> None:
    """Make this process live in a world."""
    name, _, value = world.partition(":")
    WORLDS[name](value)


def _steady(_: str) -> None:
    use_steady_time()


def _broken_disk(number: str) -> None:
    use_steady_time()
    flush, count = store.flush, [0]

    def flush_or_fail(fd: int) -> None:
        count[0] += 1
        if count[0] == int(number):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flush(fd)

    store.flush = flush_or_fail


def _small_files(most_bytes: str) -> None:
    use_steady_time()
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most_bytes), int(most_bytes)))


def _moving_clock(step_s: str) -> None:
    use_exact_windows()
    readings = [0]

    def read() -> datetime:
        readings[0] += 1
        return datetime.now(UTC) + timedelta(seconds=float(step_s) * (readings[0] // 7))

    start.session_clock = lambda: read


WORLDS: dict[str, Callable[[str], None]] = {
    "steady": _steady,
    "eio": _broken_disk,
    "limit": _small_files,
    "jump": _moving_clock,
}
