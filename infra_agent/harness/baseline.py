"""Measures configurations outside the ladder: stock at the start of a run, and repeats that a brain asks for."""

from __future__ import annotations

import math

from infra_agent.changes.change import STOCK
from infra_agent.errors import StackError
from infra_agent.harness.figure import quantity_name
from infra_agent.harness.ladder import ASSUMED_SD_LOG, screen_seed
from infra_agent.harness.launching import launched
from infra_agent.harness.measuring import Measured, measure_load, record_reference_answers, record_snapshot
from infra_agent.harness.proving import MDE_BLOCKS, record_noise
from infra_agent.harness.session import Session
from infra_agent.judge.calibrate import block_sd_from_launches, mde_ratio
from infra_agent.ledger import kinds as k


def measure_stock(session: Session) -> None:
    """Stock's figure, effective state and answers, on one launch. Raises StackError when the figure is withheld."""
    started_s = session.clock()
    session.narrator.status("starting the stock stack")
    with launched(session, STOCK, arm="stock", purpose="baseline", lane="agent", reporter=True) as launch:
        session.narrator.status("measuring the stock stack")
        measured = measure_load(
            session, launch, candidate=STOCK, lane="agent", purpose="baseline", seed=screen_seed(session)
        )
        if measured.value is None:
            raise StackError(
                "the stock stack cannot be measured: " + measured.observation.summary,
                where=f"ledger observation {measured.id}",
                hint="mend what the failed check names; nothing is tuned on a figure that is not valid",
            )
        _tell_baseline(session, measured, session.clock() - started_s)
        record_snapshot(session, launch, candidate=STOCK, lane="agent")
        session.narrator.status("collecting the stock stack's answers")
        record_reference_answers(session, launch)
    _assume_noise(session)


def measure_again(session: Session, candidate: str, lane: k.Lane) -> None:
    """One more launch and window of a configuration, on the next screening seed."""
    repeat = sum(
        1
        for made in session.state.observations.values()
        if made.candidate == candidate and made.observation.get("probe") == "load" and made.purpose != "block"
    )
    with launched(session, candidate, arm="candidate", purpose="climb", lane=lane) as launch:
        measured = measure_load(
            session, launch, candidate=candidate, lane=lane, purpose="measure", seed=screen_seed(session, repeat)
        )
    value = "withheld" if measured.value is None else f"{measured.value:.4g}"
    session.narrator.line(f"  {candidate}", f"{session.title_of(candidate)}   measured again: {value}")
    record_noise(session)


def _tell_baseline(session: Session, measured: Measured, wall_s: float) -> None:
    goal = session.goal
    name = quantity_name(goal.metric, goal.statistic)
    quantity = measured.observation.quantity(name)
    if quantity is None:
        return
    interval = (
        f" [{quantity.low:.4g}, {quantity.high:.4g}]" if quantity.low is not None and quantity.high is not None else ""
    )
    others = [
        f"{other.name} {other.value:.3g} {other.unit}"
        for other in measured.observation.quantities
        if other.name in ("ttft_s", "tpot_s") and other.name != name
    ]
    text = "   ".join([f"{name} {quantity.value:.4g} {quantity.unit}{interval}", *others])
    session.narrator.line("Baseline", text, wall_s)


def _assume_noise(session: Session) -> None:
    """Before stock was launched three times its noise is assumed, and said to be."""
    if session.state.noise is not None:
        return
    mde = mde_ratio(block_sd_from_launches(ASSUMED_SD_LOG), MDE_BLOCKS)
    session.ledger.append(
        k.NoiseKnown(sd_log=ASSUMED_SD_LOG, mde_ratio=mde, blocks=MDE_BLOCKS, samples=0, source="assumed")
    )
    session.narrator.line(
        "Noise",
        f"assumed {100 * (math.exp(ASSUMED_SD_LOG) - 1):.0f} % per launch until stock was launched three times: "
        f"{MDE_BLOCKS} blocks would show a gain of {100 * (mde - 1):.0f} %",
    )
