"""Lever families: what could be changed at all, and what has become of each.

Covered: engine parameters by family, those set through the environment apart, code, kernels, workload.
`untried` families hold a run open; `closed` ones cannot be tried in this run, with our reason; `skipped` ones carry the
brain's reason. Not covered: whether a reason is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra_agent.agent.dossier import CandidateView, CodeView, FamilyView
from infra_agent.changes.kernels import is_kernel
from infra_agent.goal.model import Goal
from infra_agent.ledger import kinds as k
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.engines.table import ENV_PREFIX
from infra_agent.stack.model import ParameterValue, Stack

CODE, KERNELS, WORKLOAD = "code", "kernels", "workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Levers:
    """What the families are derived from."""

    goal: Goal
    stack: Stack
    parameters: Sequence[Parameter]
    candidates: Sequence[CandidateView]
    skipped: Mapping[str, k.FamilySkipped]
    code: CodeView


def family_views(levers: Levers) -> tuple[FamilyView, ...]:
    """All families in the engine table's order, then code, kernels and workload."""
    names = dict.fromkeys(parameter.family for parameter in levers.parameters)
    views = [_parameter_family(name, levers) for name in names]
    return (*views, _code(CODE, levers), _code(KERNELS, levers), _workload())


def untried_families(families: Sequence[FamilyView]) -> tuple[FamilyView, ...]:
    """Those that may not be left without a test or a reason."""
    return tuple(family for family in families if family.status == "untried")


def _parameter_family(name: str, levers: Levers) -> FamilyView:
    members = [parameter for parameter in levers.parameters if parameter.family == name]
    group = "environment" if all(p.flag.startswith(ENV_PREFIX) for p in members) else "parameter"
    open_values = {p.name: levers.stack.space[p.name] for p in members if p.name in levers.stack.space}
    if not levers.goal.scope.parameters:
        return FamilyView(family=name, group=group, status="closed", detail="the goal's scope leaves parameters alone")
    if not open_values:
        return FamilyView(family=name, group=group, status="closed", detail="not in the stack's space")
    return _tried_or_not(name, group, _values(open_values), levers)


def _tried_or_not(name: str, group: str, detail: str, levers: Levers) -> FamilyView:
    tried = [candidate for candidate in levers.candidates if _tries(candidate, name)]
    if tried:
        ends = ", ".join(f"{candidate.id} {candidate.status}" for candidate in tried)
        return FamilyView(family=name, group=group, status="tried", detail=ends)
    skipped = levers.skipped.get(name)
    if skipped is not None:
        return FamilyView(family=name, group=group, status="skipped", detail=f"{skipped.disposition}: {skipped.reason}")
    return FamilyView(family=name, group=group, status="untried", detail=detail)


def _tries(candidate: CandidateView, family: str) -> bool:
    """A patch tries the family that its hypothesis names, and code in any case; of kernels only one of theirs."""
    if family == CODE and candidate.patched:
        return True
    if family == KERNELS and any(is_kernel(path) for path in candidate.patched):
        return True
    return family in candidate.family.split(",")


def _values(open_values: Mapping[str, Sequence[ParameterValue]]) -> str:
    return "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in open_values.items())


def _code(name: str, levers: Levers) -> FamilyView:
    if levers.code.closed:
        return FamilyView(family=name, group=name, status="closed", detail=levers.code.closed)
    if name == KERNELS and not levers.code.kernels:
        return FamilyView(family=name, group=name, status="closed", detail="no file of the sources is one of kernels")
    return _tried_or_not(name, name, f"{levers.code.total} files may be patched", levers)


def _workload() -> FamilyView:
    detail = "frozen by the run's contract: another workload is another question"
    return FamilyView(family=WORKLOAD, group=WORKLOAD, status="closed", detail=detail)
