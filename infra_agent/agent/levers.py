"""Levers: which values of the search space are still to be tried."""

from __future__ import annotations

from collections.abc import Iterator

from infra_agent.agent.actions import SkippedFamily
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.families import untried_families
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.model import ParameterValue

ANY_FAMILY = "*"


def untried(family: str, dossier: Dossier) -> Iterator[tuple[Parameter, ParameterValue]]:
    """Values of the search space in this family that are neither in force on the best nor tried already."""
    tried = {(name, value) for candidate in dossier.candidates for name, value in candidate.changes.items()}
    for parameter in dossier.parameters:
        if family not in (ANY_FAMILY, parameter.family):
            continue
        for value in dossier.space.get(parameter.name, ()):
            current = dossier.best_settings.get(parameter.name, parameter.default)
            if value != current and (parameter.name, value) not in tried:
                yield parameter, value


def skip_all(dossier: Dossier, reason: str) -> tuple[SkippedFamily, ...]:
    """The same reason for every family that is still untried."""
    return tuple(
        SkippedFamily(family=family.family, disposition="not_worth_it", reason=reason)
        for family in untried_families(dossier.families)
    )
