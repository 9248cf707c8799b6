"""The results of a scan: events seen on the way through a function, exported functions, findings."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as new
from enum import StrEnum

from tree_sitter import Node

HELD = "held"
RELEASED = "released"
State = frozenset[str]
"""Which of HELD and RELEASED are possible at a point."""
ONLY_HELD: State = frozenset({HELD})
ONLY_RELEASED: State = frozenset({RELEASED})


class Fault(StrEnum):
    """Kinds of faults."""

    WAIT = "wait-with-gil"
    PYTHON = "python-without-gil"
    TINY = "tiny-releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of a scanned file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something wrong at a place. `calls`: the call sites that lead there from the export, outermost first."""

    fault: Fault
    at: Place
    reason: str
    function: str
    partly: bool = False
    calls: tuple[Place, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A native callable that Python can call, and how it was bound.

    `bound`: functions given to a wrapper, by the names that the wrapper's lambda calls them.
    """

    name: str
    function: str
    kind: str
    at: Place
    target: Node
    scope: str
    guard: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    bound: dict[str, Node] = new(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault of one exported function: where, why, and the form of a fix.

    `fix_at`, `fix_column` and `guard`: line and byte (from 0) where the function's body begins and the statement to put
    first in it, where the fix is mechanical.
    """

    fault: Fault
    function: str
    exported: str
    binding: str
    at: Place
    bound_at: Place
    reason: str
    fix: str
    form: str
    fix_at: Place | None = None
    fix_column: int = 0
    guard: str = ""
    calls: tuple[Place, ...] = ()
    more: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A scan. `unseen`: exported names whose body is in no scanned file; `damaged`: files that parsed only in part.
    `released`: exported functions that let go of the GIL somewhere.
    """

    findings: tuple[Finding, ...]
    files: int
    exports: tuple[Export, ...]
    unseen: tuple[str, ...]
    damaged: tuple[str, ...]
    unreadable: tuple[str, ...]
    released: tuple[str, ...] = ()
    wall_s: float = 0.0
