"""Dossiers for brain tests, built by hand: no engine, no ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from infra_agent.agent.dossier import CandidateView, Dossier, HypothesisView
from infra_agent.goal.model import Direction, Goal, Metric, Statistic, Target
from infra_agent.stack.engines.base import Parameter, RiskClass

GOAL = Goal(
    metric=Metric.OUTPUT_TOK_PER_S,
    statistic=Statistic.VALUE,
    direction=Direction.MAXIMISE,
    target=Target(kind="ratio", value=2.0),
)


def parameter(name: str, family: str, risk: RiskClass = RiskClass.NUMERICS_MINOR, default: Any = False) -> Parameter:
    return Parameter(
        name=name,
        title=name.replace("_", " "),
        flag=f"--{name.replace('_', '-')}",
        type="bool",
        default=default,
        risk=risk,
        family=family,
        evidence="a reason",
    )


BATCHING = parameter("continuous_batching", "batching")
DTYPE = parameter("dtype", "dtype", RiskClass.NUMERICS, "auto")
THREADS = parameter("omp_num_threads", "threads", default=None)

EMPTY = Dossier(
    goal=GOAL,
    concurrency=4,
    parameters=(BATCHING, DTYPE, THREADS),
    stock_settings={},
    best="stock",
    best_settings={},
    space={"continuous_batching": (True,), "dtype": ("float32",), "omp_num_threads": (1, 4)},
    signals={},
    measured=False,
    noise_sd_log=0.02,
    goal_reached=False,
    hypotheses=(),
    candidates=(),
    refusals=(),
    elapsed_s=0.0,
    budget_s=1200.0,
    reserve_s=120.0,
    block_s=30.0,
    climb_s=15.0,
    seed=7,
    lane="agent",
    turn=0,
)
SERIAL = {"serialised": True, "decoding_max": 1, "in_flight_mean": 3.8, "device": "cpu"}
MEASURED = replace(EMPTY, measured=True, signals=SERIAL)


def hypothesis(id_: str, family: str, source: str) -> HypothesisView:
    return HypothesisView(id=id_, family=family, cause="c", source=source, status="open")


def candidate(id_: str = "C1", changes: dict[str, Any] | None = None, **fields: Any) -> CandidateView:
    base = CandidateView(
        id=id_,
        hypothesis="H1",
        family="batching",
        base="stock",
        changes={"continuous_batching": True} if changes is None else changes,
        risk="numerics-minor",
        status="screened",
        reason="",
        screen="promote",
        screen_ratio=2.9,
        measurements=1,
        proved_ratio=None,
        cost_s=15.0,
    )
    return replace(base, **fields)
