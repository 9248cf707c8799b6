"""What a run knows of its noise, and whether its goal can be proved at all: said before anything is spent on it.

Covered: the stored A/A calibration as prior, stock's own launches on top of it, A/A launches within the run where the
goal is small and nothing is stored, the refusal of a goal that asks for less than can be proved in its budget.
Not covered: constraints; each look says whether they are shown to hold.
"""

from __future__ import annotations

import math

from infra_agent.changes.change import STOCK
from infra_agent.errors import NotProvable, StackError
from infra_agent.goal.model import Direction
from infra_agent.harness.experiment.exact import is_exact
from infra_agent.harness.experiment.measuring import Wanted
from infra_agent.harness.figure import quantity_name, target_ratio
from infra_agent.harness.ladder import ASSUMED_SD_LOG
from infra_agent.harness.memory import FIGURE_PROBES, launch_logs
from infra_agent.harness.noisefloor import MetricNoise, NoiseFloor, find_floor, key_of
from infra_agent.harness.session import Session
from infra_agent.harness.windows import measure_once
from infra_agent.judge.calibrate import Reach, block_sd_in_a_row, noise_sd, pooled_sd, reach_within
from infra_agent.judge.decide import blocks_needed, provable_ratio
from infra_agent.judge.exact import EXACT_REPEATS
from infra_agent.judge.plan import LOOKS, plan_blocks
from infra_agent.ledger import kinds as k
from infra_agent.stack.engines.experiment import is_experiment

MDE_BLOCKS = 12
OWN_LAUNCHES = 3
"""Launches of stock from which its own noise counts."""
STOP_S = 1.0
"""What taking an engine down takes, about."""
CALIBRATION_LAUNCHES = 6
CALIBRATION_SHARE = 1 / 3
"""Of the time left, at most this much goes into measuring whether the goal can be proved."""


def tell_prior(session: Session) -> None:
    """Before the first launch: what is known of this machine's noise."""
    floor = find_floor(key_of(session.state.started))
    noise = _of_goal(session, floor)
    if floor is None or noise is None:
        asked = " --goal ..." if is_experiment(session.stack) else ""
        text = f"not measured here yet for this stack and load; `infra-agent doctor --noise{asked}` does that"
        session.narrator.line("Noise", text)
        return
    session.narrator.line(
        "Noise",
        f"A/A of {floor.measured_at[:16].replace('T', ' ')} UTC, {floor.blocks} blocks: one block varies by "
        f"{100 * noise.block_sd:.2g} %; {MDE_BLOCKS} blocks, about {MDE_BLOCKS * floor.block_s / 60:.2g} min, prove "
        f"{percent(provable_ratio(noise.block_sd, MDE_BLOCKS, 0.0))}",
    )


def know_noise(session: Session) -> None:
    """After stock was measured once: its noise from the store, or an assumption that is said to be one."""
    if session.state.noise is not None:
        return
    floor = find_floor(key_of(session.state.started))
    noise = _of_goal(session, floor)
    if floor is not None and noise is not None:
        _record(session, noise.block_sd, noise.degrees, "calibrated", floor.measured_at)
        return
    sd_block = math.sqrt(2) * ASSUMED_SD_LOG
    _record(session, sd_block, 0, "assumed")
    session.narrator.line(
        "Noise",
        f"assumed {percent(math.exp(ASSUMED_SD_LOG))} per launch until stock was launched {OWN_LAUNCHES} times: "
        f"{MDE_BLOCKS} blocks would show a gain of {percent(provable_ratio(sd_block, MDE_BLOCKS, 0.0))}",
    )


def know_exactly(session: Session) -> None:
    """Figures that repeat exactly have no noise."""
    if session.state.noise is None:
        session.ledger.append(
            k.NoiseKnown(sd_log=0.0, mde_ratio=1.0, blocks=EXACT_REPEATS, samples=EXACT_REPEATS, source="exact")
        )
        session.narrator.line("Noise", f"none: {EXACT_REPEATS} runs of stock on one seed gave the same figure")


def record_noise(session: Session) -> None:
    """Bring the noise floor up to date with stock's launches in this run."""
    if is_exact(session.state, session.goal):
        return
    logs = launch_logs(session.state, session.goal, STOCK, stall_free=True)
    if len(logs) < OWN_LAUNCHES:
        return
    own = (math.sqrt(2) * noise_sd([logs]), len(logs) - 1)
    prior = _prior(session)
    if prior is None:
        _record(session, own[0], len(logs), "stock arms")
    else:
        known = (math.sqrt(2) * prior.sd_log, prior.samples)
        _record(session, pooled_sd(known, own), prior.samples + own[1], "calibrated", prior.measured_at)


def require_provable(session: Session) -> None:
    """Refuse a goal that asks for less than can be proved in its budget; NotProvable says what can.

    An assumption refuses nothing: where it would, stock is launched a few times more and its noise measured.
    """
    asked = _asked(session)
    reach = _reach(session)
    if asked is None or reach is None or asked >= reach.ratio:
        return
    if session.state.noise is None or session.state.noise.source == "assumed":
        _calibrate(session)
        reach = _reach(session)
    if session.state.noise is None or session.state.noise.source == "assumed" or reach is None or asked >= reach.ratio:
        return
    digits = 2 if percent(asked) != percent(reach.ratio) else 4
    raise NotProvable(
        f"cannot prove {percent(asked, digits)} here in {_minutes(session.budget.limit_s)}; "
        f"can prove {percent(reach.ratio, digits)}",
        where=f"{reach.blocks} blocks of {block_s(session):.0f} s fit, and one varies by {100 * _sd(session):.2g} %",
        hint=_what_it_takes(session, asked),
    )


def percent(ratio: float, digits: int = 2) -> str:
    """A gain as people say it."""
    return f"{100 * (ratio - 1):.{digits}g} %" if ratio < 1.995 else f"x{ratio:.{digits + 1}g}"


def block_s(session: Session) -> float:
    """Seconds of one block: twice what stock takes to start and to be measured once."""
    state = session.state
    spans = [
        (ended.ready_s or 0.0) + float(made.observation["cost"]["wall_s"]) + STOP_S
        for made in state.observations.values()
        if made.candidate == STOCK
        and made.observation.get("probe") in FIGURE_PROBES
        and (ended := state.launches_ended.get(made.launch)) is not None
        and (ended.ready_s is not None or is_experiment(session.stack))
    ]
    return 2 * sum(spans) / len(spans) if spans else 2 * session.stack.limits.start_timeout_s


def _calibrate(session: Session) -> None:
    """A/A within the run: stock launched again and again on one seed, as long as a third of the time left allows."""
    limit_s = session.budget.remaining_s() * CALIBRATION_SHARE
    begun_s = session.clock()
    seed = plan_blocks(session.seed, 1, stage="calibrate")[0].seed
    logs: list[float] = []
    for number in range(CALIBRATION_LAUNCHES):
        if session.clock() - begun_s + block_s(session) / 2 > limit_s:
            break
        session.narrator.status(f"measuring the noise: launch {number + 1} of {CALIBRATION_LAUNCHES}")
        try:
            measure_once(session, Wanted(STOCK, "stock", "calibrate", "agent", seed), "measure")
        except StackError as error:
            session.ledger.append(k.Note(topic="warning", text=f"a calibration launch failed: {error.message}"))
        logs = launch_logs(session.state, session.goal, STOCK, ("measure",), stall_free=True)
    if len(logs) < OWN_LAUNCHES:
        return
    sd_block = block_sd_in_a_row(logs)
    _record(session, sd_block, len(logs), "stock arms")
    session.narrator.line(
        "Noise",
        f"{len(logs)} launches of stock: one block varies by {100 * sd_block:.2g} %",
        session.clock() - begun_s,
    )


def _asked(session: Session) -> float | None:
    """The gain that the goal asks for, as an oriented ratio; None without a figure of stock or with nothing to gain."""
    logs = launch_logs(session.state, session.goal, STOCK)
    if not logs:
        return None
    sign = 1 if session.goal.direction is Direction.MAXIMISE else -1
    asked = target_ratio(session.goal, math.exp(sign * sum(logs) / len(logs)))
    return asked if asked > 1 else None


def _reach(session: Session) -> Reach | None:
    """What the time left can prove, after the final relaunch and one climb."""
    kept_s = (LOOKS[0] + 1) * block_s(session)
    return reach_within(_sd(session), block_s(session), session.budget.remaining_s() - kept_s)


def _sd(session: Session) -> float:
    noise = session.state.noise
    return math.sqrt(2) * (noise.sd_log if noise is not None else ASSUMED_SD_LOG)


def _what_it_takes(session: Session, asked: float) -> str:
    blocks = blocks_needed(asked, _sd(session), threshold=0.0)
    if blocks is None:
        return "no budget is enough: ask for more, quieten the machine, or measure more requests per window"
    minutes = math.ceil((blocks + LOOKS[0] + 1) * block_s(session) / 60)
    return f"{percent(asked)} takes {blocks} blocks: --budget {minutes}m, or a quieter machine"


def _of_goal(session: Session, floor: NoiseFloor | None) -> MetricNoise | None:
    if floor is None:
        return None
    return floor.metrics.get(quantity_name(session.goal.metric, session.goal.statistic))


def _prior(session: Session) -> k.NoiseKnown | None:
    """The stored calibration as this run first took it up."""
    known = (event.data for event in session.state.events)
    return next((data for data in known if isinstance(data, k.NoiseKnown) and data.source == "calibrated"), None)


def _record(session: Session, sd_block: float, samples: int, source: str, measured_at: str = "") -> None:
    session.ledger.append(
        k.NoiseKnown.model_validate(
            {
                "sd_log": sd_block / math.sqrt(2), "mde_ratio": provable_ratio(sd_block, MDE_BLOCKS, 0.0),
                "blocks": MDE_BLOCKS, "samples": samples, "source": source, "measured_at": measured_at,
            }
        )
    )  # fmt: skip


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.3g} min"
