"""The lever families: those of the engine's table, then code, kernels and workload. None is left without a disposition.

Covered: what was tested, what the brain skipped and why, what this run could not change. Not covered: whether a reason
is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from infra_agent.changes.kernels import is_kernel
from infra_agent.ledger.state import CandidateState
from infra_agent.publish.report.candidates import STRONGEST_FIRST, end_of
from infra_agent.publish.report.facts import Facts, ids, lane
from infra_agent.publish.report.reason_rows import FamilyRow
from infra_agent.publish.report.rows import End
from infra_agent.stack.engines.base import Parameter

Disposition = Literal[
    "tested/kept", "tested/waiting", "tested/approved", "tested/declined", "tested/rejected", "tested/inconclusive",
    "not_engaged", "crashed", "open", "untested",
    "skipped/ruled_out", "skipped/not_applicable", "skipped/not_worth_it", "not_applicable",
]  # fmt: skip
_DISPOSITIONS: dict[End, Disposition] = {
    "kept": "tested/kept",
    "waiting": "tested/waiting",
    "approved": "tested/approved",
    "declined": "tested/declined",
    "rejected": "tested/rejected",
    "inconclusive": "tested/inconclusive",
    "not_engaged": "not_engaged",
    "crashed": "crashed",
    "open": "open",
    "untested": "untested",
}
_SKIPPED: dict[str, Disposition] = {
    "ruled_out": "skipped/ruled_out",
    "not_applicable": "skipped/not_applicable",
    "not_worth_it": "skipped/not_worth_it",
}
CODE, KERNELS, WORKLOAD = "code", "kernels", "workload"
LAST = (CODE, KERNELS, WORKLOAD)


def family_rows(facts: Facts, parameters: Sequence[Parameter]) -> list[FamilyRow]:
    """Every lever family that is known, with what became of it."""
    own = lane(facts.state.candidates.values(), "agent")
    stated = [hypothesis.family for hypothesis in facts.state.hypotheses.values()]
    tried = [name for candidate in own for name in _families(candidate)]
    names = [name for name in ids([p.family for p in parameters], stated, tried) if name not in LAST]
    return [_family(facts, name, own, parameters) for name in (*sorted(names), *LAST)]


def _families(candidate: CandidateState) -> list[str]:
    """What a candidate tries: a patch tries code whatever its hypothesis calls it, and kernels when it changes one."""
    patch = candidate.proposed.patch
    code = [CODE] if patch is not None else []
    kernels = [KERNELS] if patch is not None and any(map(is_kernel, patch.files)) else []
    return [*candidate.proposed.family.split(","), *code, *kernels]


def _family(facts: Facts, name: str, own: Sequence[CandidateState], parameters: Sequence[Parameter]) -> FamilyRow:
    tried = [candidate for candidate in own if name in _families(candidate)]
    ends: Mapping[str, End] = {candidate.proposed.id: end_of(candidate) for candidate in tried}
    if not tried:
        return _untested(facts, name, parameters)
    end: End = min(ends.values(), key=STRONGEST_FIRST.index)
    decisive = next(candidate for candidate in tried if ends[candidate.proposed.id] == end)
    verdict = decisive.verdict
    return FamilyRow(
        family=name,
        disposition=_DISPOSITIONS[end],
        candidates=list(ends),
        reason=verdict.reason if verdict is not None else "no verdict yet",
        evidence=list(verdict.evidence) if verdict is not None else [],
    )


def _untested(facts: Facts, name: str, parameters: Sequence[Parameter]) -> FamilyRow:
    skipped = facts.state.skipped.get(name)
    if skipped is not None:
        disposition, reason, evidence = _SKIPPED[skipped.disposition], skipped.reason, list(skipped.evidence)
    else:
        (disposition, reason), evidence = _why(facts, name, parameters), []
    return FamilyRow(family=name, disposition=disposition, candidates=[], reason=reason, evidence=evidence)


def _why(facts: Facts, name: str, parameters: Sequence[Parameter]) -> tuple[Disposition, str]:
    """Why a family was left alone: not this run's to change, or not reached."""
    finished = facts.state.finished
    closed = _closed(facts, name, parameters)
    if closed:
        return "not_applicable", closed
    if finished is None:
        return "untested", "not reached: the run has not ended"
    if finished.outcome == "budget_spent":
        return "untested", "not reached before the budget was spent"
    return "untested", "never proposed"


def _closed(facts: Facts, name: str, parameters: Sequence[Parameter]) -> str:
    scope, stack = facts.state.started.goal.scope, facts.state.started.stack
    if name == WORKLOAD:
        return "frozen by the run's contract: another workload is another question"
    if name in (CODE, KERNELS):
        return _code_closed(facts, name)
    members = {parameter.name for parameter in parameters if parameter.family == name}
    if not scope.parameters:
        return "the goal's scope leaves parameters alone"
    return "no parameter of this family is in the stack's space" if members and not members & stack.space.keys() else ""


def _code_closed(facts: Facts, name: str) -> str:
    state = facts.state
    if not state.started.goal.scope.code:
        return "the goal's scope leaves code alone"
    if not state.started.stack.sources:
        return "the stack names no sources"
    if state.workspace is None:
        return "code could not be changed in this run"
    return "no file of the sources is one of kernels" if name == KERNELS and not state.workspace.kernels else ""
