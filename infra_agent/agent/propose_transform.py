"""Lets a transform look at a configuration, and keeps what it proposes where every brain can see it.

Covered: proposals that do not fit are kept with the reason and never offered; a transform that fails is an observation.
Not covered: choosing among proposals (that is the brain's work); a proposal becomes a candidate by `propose` alone.
"""

from __future__ import annotations

from typing import Any

from infra_agent.agent.propose_code import planned
from infra_agent.agent.refusals import ActionError
from infra_agent.errors import ConfigError, StackError
from infra_agent.harness.code import why_no_code
from infra_agent.harness.measuring import record
from infra_agent.harness.session import Session
from infra_agent.harness.transforms import PREFIX, Proposal, ask_transform
from infra_agent.ledger import kinds as k
from probes.base import Cost, Observation, Rung, Verdict, Where


def run_transform(session: Session, name: str, target: str, lane: k.Lane) -> None:
    """Ask it and record its proposals. ActionError where code cannot be changed, or for an unknown transform."""
    reason = why_no_code(session.goal, session.stack, session.walls)
    if reason or session.workspace is None:
        raise ActionError(f"a transform changes code, and code cannot be changed: {reason or 'no copy of the sources'}")
    started_s = session.clock()
    session.narrator.status(f"transform {name} on {target}")
    rows: list[dict[str, Any]] = []
    try:
        rows = [_row(session, proposal, target) for proposal in ask_transform(session, name, target)]
        verdict, summary = _found(rows)
    except ConfigError as error:
        raise ActionError(f"{error.message}; {error.hint}") from error
    except StackError as error:
        verdict, summary = Verdict.ERROR, " · ".join([error.message, *error.lines[-1:]])
    offered = sum(not row["refused"] for row in rows)
    observation = Observation(
        probe=f"{PREFIX}{name}",
        rung=Rung.STATIC,
        verdict=verdict,
        summary=summary,
        where=Where(parameter=f"configuration {target}"),
        cost=Cost(wall_s=session.clock() - started_s),
        signals={f"{PREFIX}{name}": float(offered)},
        detail={"proposals": rows, "of_run": [1, 1]},
    )
    record(session, observation, candidate=target, lane=lane, purpose="probe", launch="")
    session.narrator.line(f"  {target}", f"transform {name}: {summary}", session.clock() - started_s)


def _row(session: Session, proposal: Proposal, target: str) -> dict[str, Any]:
    """A proposal as the ledger keeps it. `refused`: why its diff does not fit; empty when it does."""
    try:
        planned(session, proposal.diff, target)
        refused = ""
    except ActionError as error:
        refused = error.message
    return {**proposal.model_dump(mode="json"), "refused": refused}


def _found(rows: list[dict[str, Any]]) -> tuple[Verdict, str]:
    refused = [row["refused"] for row in rows if row["refused"]]
    told = f"; {len(refused)} do not fit: {refused[0]}" if refused else ""
    offered = len(rows) - len(refused)
    verdict = Verdict.PASS if offered else Verdict.INCONCLUSIVE
    return verdict, f"{offered} change{'' if offered == 1 else 's'} proposed{told}" if rows else "nothing to propose"
