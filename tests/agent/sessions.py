"""A Session over a real ledger in a temporary directory; engines are described, never launched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.dossiers import GOAL

from infra_agent.goal.model import Goal
from infra_agent.harness.budget import Budget
from infra_agent.harness.measuring import record
from infra_agent.harness.narrate import Silent
from infra_agent.harness.oracle import OracleHolder
from infra_agent.harness.sandbox import NO_WALLS
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.ledger.clock import session_clock
from infra_agent.ledger.store import Ledger
from infra_agent.stack.engines import engine_of
from infra_agent.stack.model import LaunchSpec, Stack
from probes.base import Cost, Observation, Quantity, Rung, Verdict, Where
from probes.load.types import Prompt

STACK = Stack(
    name="bench",
    engine="transformers",
    model="/nowhere/model",
    launch=LaunchSpec(python="/nowhere/python", parameters={"cb_num_blocks": 64}),
    space={"continuous_batching": (True,), "dtype": ("float32",), "omp_num_threads": (1, 4)},
)


@contextmanager
def session_in(folder: Path, goal: Goal = GOAL, stack: Stack = STACK, budget_s: float = 600.0) -> Iterator[Session]:
    ticks = itertools.count()
    with Ledger.create(folder / "run", session_clock()) as ledger:
        ledger.append(started(goal, stack, budget_s))
        yield Session(
            ledger=ledger,
            goal=goal,
            stack=stack,
            engine=engine_of(stack),
            walls=NO_WALLS,
            run_dir=ledger.run_dir,
            narrator=Silent(),
            budget=Budget(budget_s, lambda: float(next(ticks))),
            clock=lambda: float(next(ticks)),
            seed=7,
            prompts=(Prompt.of("Say something."),),
            answer_prompts=(),
            oracle=OracleHolder(stack, NO_WALLS, folder / "oracle"),
        )


def started(goal: Goal = GOAL, stack: Stack = STACK, budget_s: float = 600.0) -> k.RunStarted:
    return k.RunStarted(
        run_id="run",
        goal=goal,
        stack=stack,
        stack_digest="0" * 64,
        workload_sha256="0" * 64,
        brain="script",
        seed=7,
        budget_s=budget_s,
        version="0",
        environment={},
        walls={},
    )


def window(value: float, **extra: float) -> Observation:
    quantities = [Quantity(name="output_tok_per_s", value=value, unit="tok/s")]
    quantities += [Quantity(name=name, value=figure, unit="s") for name, figure in extra.items()]
    return Observation(
        probe="load",
        rung=Rung.LOAD,
        verdict=Verdict.PASS,
        summary="a window",
        where=Where(whole_system=True),
        cost=Cost(wall_s=1.0),
        quantities=tuple(quantities),
    )


def add_window(session: Session, candidate: str, value: float, purpose: Any = "baseline", **extra: float) -> str:
    return record(session, window(value, **extra), candidate=candidate, lane="agent", purpose=purpose, launch="")


def add_candidate(session: Session, id_: str = "C1", risk: str = "numerics-minor", base: str = "stock") -> None:
    session.ledger.append(
        k.CandidateProposed(
            id=id_,
            title="continuous batching",
            hypothesis="",
            base=base,
            changes=({"parameter": "continuous_batching", "value": True, "before": None},),
            settings={"cb_num_blocks": 64, "continuous_batching": True},
            digest=id_ * 32,
            risk=risk,
            risk_reasons=("a reason",),
            family="batching",
            lane="agent",
        )
    )


def estimate(ratio: float, low: float, high: float) -> k.EstimateData:
    return k.EstimateData(ratio=ratio, low=low, high=high, p=None, n=3, confidence=0.95, method="t")
