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
from infra_agent.harness.budget.book import LedgerBook
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


ANSWER = {"prompt_id": "A1", "prompt": "Say something.", "endpoint": "chat", "max_tokens": 4, "text": "words"}


@contextmanager
def session_in(
    folder: Path, goal: Goal = GOAL, stack: Stack = STACK, budget_s: float = 600.0, brain: str = "script"
) -> Iterator[Session]:
    ticks = itertools.count()
    with Ledger.create(folder / "run", session_clock()) as ledger:
        ledger.append(started(goal, stack, budget_s, brain))
        yield Session(
            ledger=ledger,
            goal=goal,
            stack=stack,
            engine=engine_of(stack),
            walls=NO_WALLS,
            run_dir=ledger.run_dir,
            narrator=Silent(),
            budget=Budget(budget_s, lambda: float(next(ticks)), book=LedgerBook(ledger)),
            clock=lambda: float(next(ticks)),
            seed=7,
            prompts=(Prompt.of("Say something."),),
            answer_prompts=(),
            oracle=OracleHolder(stack, NO_WALLS, folder / "oracle"),
        )


def started(goal: Goal = GOAL, stack: Stack = STACK, budget_s: float = 600.0, brain: str = "script") -> k.RunStarted:
    return k.RunStarted(
        run_id="run",
        goal=goal,
        stack=stack,
        stack_digest="0" * 64,
        workload_sha256="0" * 64,
        brain=brain,
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


def add_baseline(session: Session, value: float = 25.0) -> None:
    """Everything of stock that a candidate is compared with, as if it had been measured."""
    add_window(session, "stock", value)
    for probe, rung in (("effective-state", Rung.STATIC), ("reference-answers", Rung.NUMERIC)):
        detail: dict[str, Any] = {"snapshot": {"device": "cpu"}} if rung is Rung.STATIC else {"answers": [ANSWER]}
        seen = Observation(
            probe=probe, rung=rung, verdict=Verdict.PASS, summary=probe, where=Where(whole_system=True),
            cost=Cost(wall_s=1.0), detail=detail,
        )  # fmt: skip
        record(session, seen, candidate="stock", lane="agent", purpose="baseline", launch="")
    session.ledger.append(k.NoiseKnown(sd_log=0.02, mde_ratio=1.03, blocks=12, samples=2, source="stock arms"))


def add_hypothesis(session: Session, id_: str = "H1", **fields: Any) -> None:
    given: dict[str, Any] = {
        "family": "batching", "cause": "one at a time", "place": "admission", "refuted_by": "two at once",
        "predictions": ({"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 3.0},),
    }  # fmt: skip
    session.ledger.append(k.HypothesisStated(id=id_, **{**given, **fields}))


def give_verdict(session: Session, candidate: str, decision: Any, ratio: float | None = None) -> None:
    found = estimate(ratio, ratio * 0.9, ratio * 1.1) if ratio is not None else None
    session.ledger.append(
        k.VerdictGiven(
            candidate=candidate, decision=decision, cause="proved", rung="load", estimate=found,
            reason="three blocks", elapsed_s=1.0,
        )
    )  # fmt: skip
