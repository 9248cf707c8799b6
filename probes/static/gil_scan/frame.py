"""What is known at a point of a walk: one function's frame, and the summary it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as new

from tree_sitter import Node

from probes.static.gil_scan.model import Event, State

NOWHERE: State = frozenset()


@dataclass(frozen=True, slots=True)
class Summary:
    """What a function does when entered in one state: events, states at its end, and how heavy it is."""

    events: tuple[Event, ...] = ()
    out: State = NOWHERE
    heavy: bool = False
    releases: bool = False


@dataclass(slots=True)
class Frame:
    """One function being walked."""

    function: str
    file: str
    scope: str
    types: dict[str, str] = new(default_factory=dict)
    lambdas: dict[str, Node] = new(default_factory=dict)
    guards: dict[str, tuple[str, State]] = new(default_factory=dict)
    events: list[Event] = new(default_factory=list)
    returns: State = NOWHERE
    exits: State = NOWHERE
    ensured: list[State] = new(default_factory=list)
    heavy: bool = False
    depth: int = 0
    branch: int = 0
    loop: int = 0
    releases: list[int] = new(default_factory=list)
    tiny: int = 0
    hint: str = ""
