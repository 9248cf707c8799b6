"""Errors of a launch, each with the outcome that the ledger stores, and what an engine's log says about the cause.

Covered: exit codes, the engine's own log patterns, and the nearest known flag for one that it refused.
Not covered: causes that leave no trace in the log.
"""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Sequence
from typing import Literal

from infra_agent.errors import StackIdentityError, StackStartError
from infra_agent.stack.engines.base import Engine

Outcome = Literal["died", "hung", "unhealthy", "wrong_model", "over_memory", "over_processes", "over_disk"]
_FLAG_REFUSED = re.compile(
    r"(?:no such option|unrecognized arguments?|unexpected argument|unknown (?:argument|option|flag)|invalid argument)"
    r"[^-\n]*(?P<flag>--?[A-Za-z][\w-]*)",
    re.IGNORECASE,
)


class LaunchFailed(StackStartError):
    """The engine died, hung or never answered well. `outcome` is a value of ledger.kinds.LaunchEnded.outcome."""

    def __init__(
        self, message: str, *, outcome: Outcome, where: str = "", hint: str = "", lines: Sequence[str] = ()
    ) -> None:
        super().__init__(message, where=where, hint=hint, lines=lines)
        self.outcome = outcome


class WrongModel(StackIdentityError):
    """The server answers for another model. `outcome` is a value of ledger.kinds.LaunchEnded.outcome."""

    outcome: Outcome = "wrong_model"


def explain(engine: Engine, lines: Sequence[str]) -> tuple[str, str]:
    """What the log's lines mean and what to do: (meaning, hint), both empty when no line is known."""
    refused = refused_flag(lines)
    if refused is not None:
        return f"it does not know the flag {refused}", _nearest_flag(engine, refused)
    for pattern in engine.log_patterns:
        if any(re.search(pattern.regex, line) for line in lines):
            return pattern.meaning, pattern.hint
    return "", ""


def refused_flag(lines: Sequence[str]) -> str | None:
    """The flag that a command-line parser says it does not know."""
    for line in reversed(lines):
        match = _FLAG_REFUSED.search(line)
        if match:
            return match["flag"]
    return None


def describe_exit(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "no exit code"
    if code > 128:
        try:
            return f"exit code {code}, {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"exit code {code}"


def _nearest_flag(engine: Engine, flag: str) -> str:
    known = sorted({name for p in engine.parameters() for name in p.flag.split("/") if not name.startswith("env:")})
    nearest = difflib.get_close_matches(flag, known, n=1, cutoff=0.6)
    return (
        f"did you mean {nearest[0]}?"
        if nearest
        else f"`infra-agent stack show --params` lists what {engine.name} knows"
    )
