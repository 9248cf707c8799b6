"""Words shared by all probes: what was measured, where, against what, at what cost.

Covered: the typed result of one local experiment, and the registry through which probes are found.
Not covered: deciding what a result means for a candidate (that is the judge's work).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Literal, Protocol, TypeVar

T = TypeVar("T")
Json = Any
"""A JSON value: None, bool, int, float, str, list or dict of these."""


CAUSE_ARMS = ("base", "intervention", "reversal", "placebo")
"""What must have been measured before an observation may say `cause` (`probes.causes`)."""


class Verdict(StrEnum):
    """What one experiment says. `inconclusive` and `invalid` are results, not failures of the program."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    ERROR = "error"


class Rung(StrEnum):
    """Rungs of the ladder, cheapest first."""

    STATIC = "static"
    NUMERIC = "numeric"
    MICRO = "micro"
    TRACE = "trace"
    EVENTS = "events"
    LOAD = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The place an observation is tied to. At least one field is set; `whole_system` must be said aloud."""

    parameter: str | None = None
    file: str | None = None
    line: int | None = None
    kernel: str | None = None
    input: str | None = None
    thread: str | None = None
    interval_s: tuple[float, float] | None = None
    whole_system: bool = False

    def __post_init__(self) -> None:
        places = (self.parameter, self.file, self.kernel, self.input, self.thread, self.interval_s)
        if all(place is None for place in places) and not self.whole_system:
            raise ValueError("an observation needs a place; say whole_system=True if it has none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What an observation was compared with."""

    kind: Literal["reference", "baseline", "limit", "none"] = "none"
    name: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One figure: SI unit, and an interval where one is known. `n` is the number of samples behind it."""

    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    n: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One validity check of a measurement. A failed check withholds every quantity beside it."""

    name: str
    ok: bool
    measured: str
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an experiment cost."""

    wall_s: float
    launches: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of one probe. `invalid` and `error` carry a reason and no quantity: enforced here.

    `signals` are plain facts that playbooks and brains match on (name → number, text or flag).
    `detail` is a JSON document for the report; large raw data belong in an artifact.
    """

    probe: str
    rung: Rung
    verdict: Verdict
    summary: str
    where: Where
    cost: Cost
    against: Against = field(default_factory=Against)
    quantities: tuple[Quantity, ...] = ()
    checks: tuple[Check, ...] = ()
    signals: Mapping[str, float | str | bool] = field(default_factory=dict)
    detail: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        withheld = self.verdict in (Verdict.INVALID, Verdict.ERROR)
        if withheld and self.quantities:
            raise ValueError(f"an observation that is {self.verdict} carries no quantities")
        if not withheld and any(not check.ok for check in self.checks):
            raise ValueError("an observation with a failed validity check must be invalid")
        if "cause" in self.signals and not _proves(self.detail.get("cause")):
            raise ValueError("an observation that says cause carries its intervention, reversal and placebo")

    def quantity(self, name: str) -> Quantity | None:
        """The quantity of this name, or None."""
        return next((quantity for quantity in self.quantities if quantity.name == name), None)


def _proves(record: Any) -> bool:
    """Whether a record of `probes.causes` holds samples of every arm."""
    arms = [record.get(arm) for arm in CAUSE_ARMS] if isinstance(record, Mapping) else [None]
    return all(isinstance(arm, Mapping) and arm.get("samples") for arm in arms)


class Probe(Protocol):
    """One kind of local experiment."""

    name: str
    rung: Rung
    summary: str


class Registry(Generic[T]):
    """Named lazy factories, so that optional dependencies stay optional until they are asked for."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._factories: dict[str, Callable[[], T]] = {}

    def register(self, name: str, factory: Callable[[], T]) -> None:
        """Add a factory. A name is taken once."""
        if name in self._factories:
            raise ValueError(f"{self._what} {name!r} is registered twice")
        self._factories[name] = factory

    def names(self) -> list[str]:
        """All known names, sorted."""
        return sorted(self._factories)

    def create(self, name: str) -> T:
        """Build the named thing; KeyError lists the known names."""
        if name not in self._factories:
            raise KeyError(f"no {self._what} {name!r}; known: {', '.join(self.names())}")
        return self._factories[name]()
