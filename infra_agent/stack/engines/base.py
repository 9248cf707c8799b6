"""What an engine file describes. An engine is pure description: it starts and stops nothing itself.

`harness.server` turns a description into a running process and takes it down again. One file per engine; a new
engine implements `Engine` and is registered in `engines/__init__.py`; `tests/stack/engines` runs one conformance
suite over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from infra_agent.stack.model import ParameterValue, Stack


class RiskClass(StrEnum):
    """Risk of changing something. Order of strictness: see `review.risk`."""

    ROUTINE = "routine"
    TRADE = "trade"
    MEMORY = "memory"
    NUMERICS_MINOR = "numerics-minor"
    CONCURRENCY = "concurrency"
    NUMERICS = "numerics"
    PRODUCTION = "production"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement:
    """How to see that a parameter's value is in effect in the running engine.

    `signal` names a key of the effective-state snapshot (`Engine.snapshot_keys`). `expect` maps a parameter value to
    the value the signal must then have; a value not in the map must equal the signal as text. A parameter without
    an Engagement can only be proved by a snapshot that differs from stock's.
    """

    signal: str
    expect: Mapping[str, float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One launch parameter: type, range, default, risk, lever family, and the evidence that suggests a change.

    `flag` is the command-line flag, or `env:NAME` for an environment variable.
    `title` is what people call it ("continuous batching"). `values` lists the sensible choices to try.
    """

    name: str
    title: str
    flag: str
    type: Literal["bool", "int", "float", "str"]
    default: ParameterValue | None
    risk: RiskClass
    family: str
    evidence: str
    choices: tuple[ParameterValue, ...] = ()
    low: float | None = None
    high: float | None = None
    engagement: Engagement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """A command line ready to be started: argv, the complete environment additions, and where it will listen."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    host: str
    port: int

    @property
    def base_url(self) -> str:
        """Root URL of the server, without `/v1`."""
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPattern:
    """A line worth naming in an engine's log: what it means and what to do about it."""

    regex: str
    meaning: str
    hint: str


class Engine(Protocol):
    """Description of one serving engine."""

    name: str
    launches: bool
    """False for engines that are only attached to by URL."""
    health_path: str
    metrics_path: str | None
    log_patterns: Sequence[LogPattern]

    def parameters(self) -> Sequence[Parameter]:
        """The parameter table."""
        ...

    def plan(self, stack: Stack, settings: Mapping[str, ParameterValue], port: int) -> LaunchPlan:
        """Argv and environment for a stack with these parameter settings on this port.

        Raises ConfigError for an unknown parameter (names the nearest known one) or a value outside its range.
        """
        ...

    def version_argv(self, stack: Stack) -> tuple[str, ...] | None:
        """A command that prints the engine's version, or None."""
        ...

    def reporter(self) -> str | None:
        """Name of the in-process reporter that snapshots effective state (`harness.reporter`), or None."""
        ...

    def model_in_request(self, stack: Stack) -> str:
        """The `model` field that requests must carry, and that answers must echo."""
        ...
