"""Risk class of a change, derived from the change and the engine's table; the strictest reason wins.

Covered: launch parameters, by the engine's table; an unknown one is class `production`. Code, by `code_risk`.
Not covered: effects that neither the table nor the changed statements name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from infra_agent.changes.change import LaunchChange
from infra_agent.stack.engines.base import Parameter, RiskClass

STRICTNESS = (
    RiskClass.ROUTINE,
    RiskClass.TRADE,
    RiskClass.NUMERICS_MINOR,
    RiskClass.MEMORY,
    RiskClass.CONCURRENCY,
    RiskClass.NUMERICS,
    RiskClass.PRODUCTION,
)
GATED = frozenset({RiskClass.MEMORY, RiskClass.CONCURRENCY, RiskClass.NUMERICS, RiskClass.PRODUCTION})
"""Classes that wait for a person. `memory` is among them as long as no longest-context stress probe exists."""


class Risk(NamedTuple):
    """A class with the reasons for it, strictest first."""

    risk: RiskClass
    reasons: tuple[str, ...]

    @property
    def gated(self) -> bool:
        """Whether a person has to approve."""
        return self.risk in GATED


def derive_risk(
    changes: Iterable[LaunchChange], parameters: Sequence[Parameter], code: Iterable[tuple[RiskClass, str]] = ()
) -> Risk:
    """The strictest class among the changes. `code`: classes with reasons, as `code_risk` found them."""
    table = {parameter.name: parameter for parameter in parameters}
    found: list[tuple[RiskClass, str]] = []
    for change in changes:
        parameter = table.get(change.parameter)
        if parameter is None:
            found.append((RiskClass.PRODUCTION, f"{change.parameter} is not in the engine's table"))
        else:
            found.append((parameter.risk, f"{parameter.title} is class {parameter.risk.value}"))
    found += code
    found.sort(key=lambda entry: STRICTNESS.index(entry[0]), reverse=True)
    strictest = found[0][0] if found else RiskClass.ROUTINE
    return Risk(strictest, tuple(reason for _, reason in found))


def needs_answers(risk: RiskClass) -> bool:
    """Whether the class demands the answer check whatever the goal says."""
    return risk in {RiskClass.NUMERICS, RiskClass.NUMERICS_MINOR}
