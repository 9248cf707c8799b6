"""build_report: a run's state in, one Report out.

Covered: putting the sections together. `extra` carries what the ledger does not hold, all of it optional:
`parameters` (the engine's table: flags and lever families), `judge_error_rates` (name → rate, as last calibrated),
`brain_tokens` and `brain_usd` (what an LLM brain used).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra_agent.ledger.state import RunState
from infra_agent.publish.commands import commands
from infra_agent.publish.report import candidates, costs, families, gaps, journey, llm, outcome, reasons
from infra_agent.publish.report.facts import Facts, json_safe
from infra_agent.publish.report.measures import measures
from infra_agent.publish.report.model import LedgerInfo, Report
from infra_agent.stack.engines.base import Parameter


def build_report(state: RunState, extra: Mapping[str, Any] | None = None) -> Report:
    """The report of a run in any state: finished, waiting, interrupted or empty."""
    extra = extra or {}
    facts = Facts(state)
    parameters: Sequence[Parameter] = extra.get("parameters", ())
    baseline, best, before_after = measures(facts)
    hypotheses = reasons.hypothesis_rows(facts)
    started = state.started
    report = Report(
        run=outcome.run_info(facts),
        goal=outcome.goal_info(started.goal),
        stack=outcome.stack_info(state),
        outcome=outcome.outcome(facts),
        baseline=baseline,
        best=best,
        before_after=before_after,
        accepted=candidates.accepted_rows(facts, parameters),
        decisions=candidates.decision_rows(facts, parameters),
        people=candidates.all_person_rows(facts),
        verdicts=candidates.verdict_rows(facts),
        candidates=candidates.candidate_rows(facts, parameters),
        proposals=len(state.candidates),
        journey=journey.journey(facts),
        rung_costs=journey.rung_costs(facts),
        attribution=journey.attribution(facts),
        hypotheses=hypotheses,
        predictor=reasons.predictor(facts, hypotheses),
        claims=reasons.claims(facts),
        answers=reasons.answers(facts),
        noise=costs.noise(facts),
        judge_error_rates=dict(extra.get("judge_error_rates", {})),
        families=families.family_rows(facts, parameters),
        honesty_row=costs.honesty(facts),
        agent=costs.agent(facts),
        final=costs.final(facts),
        search=costs.search(facts),
        observations=gaps.observation_rows(facts),
        not_measured=gaps.not_measured(facts, extra),
        degraded=gaps.degraded(facts),
        notes=gaps.notes(facts),
        refused_actions=gaps.refused(facts),
        failed_launches=gaps.failed_launches(facts),
        cost=costs.cost(facts, extra),
        llm=llm.llm_info(facts),
        environment=json_safe(started.environment),
        walls=dict(started.walls),
        reproduce=[],
        ledger=LedgerInfo(events=len(state.events), head_seq=state.head_seq, head_hash=state.head_hash),
    )
    return report.model_copy(update={"reproduce": commands(report)})
