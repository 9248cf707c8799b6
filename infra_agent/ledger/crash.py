"""Fault injection for tests: the process kills itself at a chosen event.

`INFRA_AGENT_CRASH_AT=<seq>[:before|:after|:torn]` (default `after`) sends SIGKILL to the own process before event <seq>
is written, after it is written, or with half of its line written.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from infra_agent.errors import UsageError

VARIABLE = "INFRA_AGENT_CRASH_AT"
Moment = Literal["before", "after", "torn"]


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where to die; sequence number 0 means never."""

    seq: int = 0
    moment: Moment = "after"

    def due(self, seq: int, moment: Moment) -> bool:
        """Whether this is the place."""
        return (self.seq, self.moment) == (seq, moment)


def crash_point(environ: Mapping[str, str]) -> CrashPoint:
    """The crash point asked for by the environment."""
    text = environ.get(VARIABLE, "")
    if not text:
        return CrashPoint()
    number, _, moment = text.partition(":")
    if not number.isdecimal() or moment not in ("", "before", "after", "torn"):
        raise UsageError(f"{VARIABLE}={text} is not <event number>[:before|:after|:torn]")
    return CrashPoint(int(number), cast(Moment, moment or "after"))


def die() -> None:
    """SIGKILL to the own process: no handler, no clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)
