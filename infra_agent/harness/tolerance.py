"""The limit of a near-tie: the stated tolerance, or what the served type's own rounding moves if that is more.

A 16-bit type moves close calls by itself, with no server and no change at all. That movement is measured once per run
along stock's own answers (oracle in float32 against the same weights in the served type) and kept in the ledger.
"""

from __future__ import annotations

from typing import NamedTuple

from infra_agent.changes.change import STOCK
from infra_agent.harness.measuring import record
from infra_agent.harness.memory import snapshot_of
from infra_agent.harness.session import Session
from infra_agent.ledger.state import RunState
from probes.base import Cost, Observation, Quantity, Rung, Verdict, Where
from probes.numeric.oracle import OracleProcess
from probes.numeric.types import Answer, OracleError

PROBE = "rounding"
NARROW = ("bfloat16", "float16")


class Tolerance(NamedTuple):
    """A limit in nat, and where it comes from."""

    nat: float
    why: str


def near_tie_limit(session: Session, reference: tuple[Answer, ...], oracle: OracleProcess | None) -> Tolerance:
    """The limit for this run; measured on first use where the served type is a 16-bit one."""
    stated = session.stack.reference.tolerance_nat
    dtype = str(snapshot_of(session.state, STOCK).get("model.dtype", ""))
    if oracle is None or dtype not in NARROW or not session.stack.reference.measure_rounding:
        return Tolerance(stated, "stated")
    found = _recorded(session.state)
    p99_nat = _measure(session, reference, oracle, dtype) if found is None else found
    if p99_nat <= stated:
        return Tolerance(stated, "stated")
    return Tolerance(p99_nat, f"{dtype} alone moves close calls so far (p99)")


def _recorded(state: RunState) -> float | None:
    """What was measured before; 0 when the measurement failed: the stated tolerance then stands for the whole run."""
    for made in state.observations.values():
        if made.observation.get("probe") == PROBE:
            values = [q["value"] for q in made.observation["quantities"] if q["name"] == "rounding_p99_nat"]
            return float(values[0]) if values else 0.0
    return None


def _measure(session: Session, reference: tuple[Answer, ...], oracle: OracleProcess, dtype: str) -> float:
    started_s = session.clock()
    where = Where(input=f"{len(reference)} answers of stock", parameter="dtype")
    try:
        found = oracle.rounding(reference, dtype)
    except OracleError as error:
        failed = Observation(
            probe=PROBE,
            rung=Rung.NUMERIC,
            verdict=Verdict.ERROR,
            summary=f"the stated tolerance stands: {error}",
            where=where,
            cost=Cost(wall_s=session.clock() - started_s),
        )
        record(session, failed, candidate=STOCK, lane="agent", purpose="answers", launch="")
        return 0.0
    names = {"median": found.median_nat, "p99": found.p99_nat, "max": found.max_nat}
    observation = Observation(
        probe=PROBE,
        rung=Rung.NUMERIC,
        verdict=Verdict.PASS,
        summary=f"{dtype} alone moves the distance of the two best tokens by up to {found.p99_nat:.2g} nat (p99 of "
        f"{found.positions} positions)",
        where=where,
        cost=Cost(wall_s=session.clock() - started_s),
        quantities=tuple(
            Quantity(name=f"rounding_{name}_nat", value=value, unit="nat", n=found.positions)
            for name, value in names.items()
        ),
    )
    record(session, observation, candidate=STOCK, lane="agent", purpose="answers", launch="")
    session.narrator.line("Rounding", observation.summary, session.clock() - started_s)
    return found.p99_nat
