"""Everything that can be wrong with a candidate, each with a name of its own.

Covered: the kinds and what is told with each: the case, the place in the candidate's source, shapes, the first index.
Not covered: whether a kind can be tried again (none can: a candidate that fails is refused).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a candidate did wrong."""

    LOAD = "cannot be loaded"
    CRASH = "crash"
    EXIT = "early exit"
    HANG = "hang"
    MEMORY = "memory"
    PROTOCOL = "forged reply"
    NO_OUTPUT = "no output"
    TYPE = "wrong type"
    COUNT = "wrong number of outputs"
    SHAPE = "wrong shape"
    DTYPE = "wrong dtype"
    DEVICE = "wrong device"
    UNWRITTEN = "not written"
    NAN = "NaN"
    INFINITY = "infinity"
    VALUE = "wrong value"
    INPUT_CHANGED = "input changed"
    LATE_WRITE = "written after return"
    ALIASED = "result used again"
    STATE_CHANGED = "global state changed"
    REPLAY = "remembered result"
    NOT_ENGAGED = "kernel not engaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `index`, `got` and `expected` belong to the first element that differs."""

    kind: Kind
    message: str
    case: str = ""
    output: str = ""
    index: tuple[int, ...] | None = None
    got: str = ""
    expected: str = ""
    file: str = ""
    line: int = 0
    lines: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        place = f" at {self.file}:{self.line}" if self.file else ""
        case = f" [{self.case}]" if self.case else ""
        return f"{self.kind.value}: {self.message}{place}{case}"


class CandidateFailure(Exception):
    """The candidate failed; the judge goes no further with it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class JudgeFailure(Exception):
    """The judge cannot do its work here: no interpreter, no numpy in it, a broken reference, no walls."""
