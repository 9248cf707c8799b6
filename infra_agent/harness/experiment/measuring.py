"""Turns a run into an observation: the goal's figure beside all others, what was checked, and who else was busy.

Covered: the end of an interval that the metric is judged by, its resolution, units, checks that withhold everything.
Not covered: comparing runs (`exact`, `harness.proving`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from infra_agent.changes.change import STOCK
from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import Goal
from infra_agent.harness.experiment.run import Ran, run_experiment
from infra_agent.harness.figure import goal_value
from infra_agent.harness.launching import Arm, Purpose
from infra_agent.harness.measuring import Measured, ObservationPurpose, record
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from probes.base import Against, Check, Cost, Observation, Quantity, Rung, Verdict, Where

PROBE = "experiment"
REPORTED = "_reported"
"""Behind a quantity's name: the figure as the run gave it, where another end of it or its resolution is judged."""
SNAPSHOT = "state."


class Wanted(NamedTuple):
    """Which run: of what, for what, on which seed."""

    candidate: str
    arm: Arm
    purpose: Purpose
    lane: k.Lane
    seed: int


def measure_experiment(session: Session, wanted: Wanted, purpose: ObservationPurpose) -> Measured:
    """Run it once and record what it says. Raises StackError, BudgetSpent."""
    candidate, lane = wanted.candidate, wanted.lane
    ran = run_experiment(
        session, candidate, arm=wanted.arm, purpose=wanted.purpose, lane=lane, seed=wanted.seed
    )  # fmt: skip
    observation = observed(session.goal, ran, candidate, wanted.seed)
    identity = record(session, observation, candidate=candidate, lane=lane, purpose=purpose, launch=ran.launch)
    record_state(session, ran, candidate, lane)
    return Measured(identity, observation, goal_value(session.goal, observation))


def observed(goal: Goal, ran: Ran, candidate: str, seed: int) -> Observation:
    """What one run says, in the words of all probes."""
    document = ran.document
    checks = (*(check.check() for check in document.checks), *_of_metrics(goal, ran))
    failed = [check for check in checks if not check.ok]
    memory = Quantity(name="memory_bytes", value=float(ran.memory_bytes), unit="B")
    quantities = [*_judged(goal, ran), *([memory] if ran.memory_bytes > 0 else [])]
    shown = next((q for q in quantities if q.name == goal.metric.value), None)
    summary = "; ".join(f"{check.name}: {check.measured} (limit: {check.limit})" for check in failed)
    return Observation(
        probe=PROBE,
        rung=Rung.MICRO,
        verdict=Verdict.INVALID if failed else Verdict.PASS,
        summary=f"withheld: {summary}" if failed else _words(shown),
        where=Where(parameter=f"configuration {candidate}", input=f"seed {seed}"),
        against=Against() if candidate == STOCK else Against(kind="baseline", name=STOCK),
        cost=Cost(wall_s=ran.wall_s, launches=1),
        quantities=() if failed else tuple(quantities),
        checks=checks,
        signals={**document.signals, **ran.others.signals()},
        detail={
            "evidence_from": "the candidate's side", "seed": seed, "detail": document.detail,
            "samples": {q.name: list(q.samples) for q in document.quantities if q.samples},
        },
    )  # fmt: skip


def record_state(session: Session, ran: Ran, candidate: str, lane: k.Lane) -> None:
    """What is in effect, as the run tells it: signals named `state.KEY`; kept once for each configuration."""
    known = [
        m for m in session.state.standing if m.candidate == candidate and m.observation["probe"] == "effective-state"
    ]
    if known:
        return
    told = {key: value for key, value in ran.document.signals.items() if key.startswith(SNAPSHOT)}
    observation = Observation(
        probe="effective-state",
        rung=Rung.STATIC,
        verdict=Verdict.PASS if told else Verdict.INCONCLUSIVE,
        summary=f"{len(told)} effective values told" if told else "this experiment tells nothing of its settings",
        where=Where(whole_system=True),
        cost=Cost(wall_s=0.0),
        detail={"snapshot": told},
    )
    record(session, observation, candidate=candidate, lane=lane, purpose="engagement", launch=ran.launch)


def _judged(goal: Goal, ran: Ran) -> Iterator[Quantity]:
    """All quantities; those that are judged by another end, or lie below their resolution, beside what was reported."""
    metrics = {metric.name: metric for metric in declared_in(goal)}
    for document in ran.document.quantities:
        quantity = document.quantity()
        metric = metrics.get(quantity.name)
        figure = _figure(metric, quantity) if metric is not None else None
        if figure is None or figure == quantity.value:
            yield quantity
            continue
        yield replace(quantity, value=figure, low=None, high=None)
        yield replace(quantity, name=f"{quantity.name}{REPORTED}")


def _figure(metric: DeclaredMetric, quantity: Quantity) -> float | None:
    end = {"value": quantity.value, "low": quantity.low, "high": quantity.high}[metric.judged]
    return None if end is None else max(end, metric.resolution)


def declared_in(goal: Goal) -> Sequence[DeclaredMetric]:
    """The declared metrics that a goal speaks of."""
    named = (goal.metric, *(limit.metric for limit in goal.constraints.limits))
    return [metric for metric in named if isinstance(metric, DeclaredMetric)]


def _of_metrics(goal: Goal, ran: Ran) -> Iterator[Check]:
    """Every metric of the goal must be in the result, in its unit, with the end that is judged."""
    told = {quantity.name: quantity for quantity in ran.document.quantities}
    for metric in declared_in(goal):
        found = told.get(metric.name)
        if found is None:
            yield Check(name=f"{metric.name} is measured", ok=False, measured="absent", limit="in the result")
        elif found.unit != metric.unit:
            yield Check(name=f"unit of {metric.name}", ok=False, measured=found.unit, limit=metric.unit)
        elif metric.judged != "value" and getattr(found, metric.judged) is None:
            limit = f"its {metric.judged} end, by which it is judged"
            yield Check(name=f"interval of {metric.name}", ok=False, measured="none", limit=limit)


def _words(quantity: Quantity | None) -> str:
    if quantity is None:
        return "measured"
    return f"{quantity.name} {quantity.value:.4g}" + ("" if quantity.unit == "1" else f" {quantity.unit}")
