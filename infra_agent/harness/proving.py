"""Takes a candidate to the judge: AB/BA blocks with a fresh launch per arm, until a planned look decides."""

from __future__ import annotations

import math
from typing import Literal

from infra_agent.changes.change import STOCK
from infra_agent.errors import StackError
from infra_agent.harness.figure import oriented_log
from infra_agent.harness.ladder import SHORT_ANSWERS, estimate_data_fields
from infra_agent.harness.launching import launched
from infra_agent.harness.measuring import Measured, measure_load
from infra_agent.harness.memory import launch_logs
from infra_agent.harness.session import Session
from infra_agent.judge.calibrate import mde_ratio, noise_sd
from infra_agent.judge.decide import decide
from infra_agent.judge.plan import LOOKS, plan_blocks
from infra_agent.judge.types import Arm, Block, Look
from infra_agent.ledger import kinds as k

Stage = Literal["prove", "final", "honesty"]
MAX_BLOCKS = 16
MAX_BAD_BLOCKS = 3
MAX_CANDIDATE_FAULTS = 2
"""A candidate that fails in two of its launches is not judged by the launches that survive."""
CANDIDATE_FAULT = "candidate"
MDE_BLOCKS = 12
FUTILE_AT_FIRST = 0.97


def measure_blocks(session: Session, candidate: str, base: str, stage: Stage, lane: k.Lane, count: int) -> list[float]:
    """Measure until `count` valid blocks exist; returns their oriented log-ratios, oldest first.

    Blocks of earlier sessions count. Raises StackError after three bad blocks, BudgetSpent when time is out.
    """
    while len(valid_blocks(session, candidate, stage)) < count:
        done = _blocks(session, candidate, stage)
        bad = [block for block in done if not block.valid]
        faults = sum(block.reason.startswith(CANDIDATE_FAULT) for block in bad)
        if len(bad) >= MAX_BAD_BLOCKS or faults >= MAX_CANDIDATE_FAULTS:
            raise StackError(f"{len(bad)} blocks were not valid: {bad[-1].reason}", where=f"{candidate} against {base}")
        session.budget.require(block_wall_s(session), "another block")
        block = plan_blocks(session.seed, 1, start=_planned(session, candidate, stage), stage=stage)[0]
        _measure_block(session, candidate, base, stage, lane, block)
    return log_ratios(session, candidate, stage)[:count]


def look_at(session: Session, candidate: str, base: str, stage: Stage, lane: k.Lane, max_blocks: int) -> Look:
    """Measure up to each planned look in turn until the judge decides or `max_blocks` are done.

    Looks of earlier sessions are computed again from the same blocks, not recorded twice.
    """
    planned = [count for count in LOOKS if count <= max_blocks]
    taken = {look.blocks for look in session.state.candidates[candidate].looks if look.stage == stage}
    for count in planned:
        logs = measure_blocks(session, candidate, base, stage, lane, count)
        look = decide(logs, count, max_blocks=planned[-1])
        if count not in taken:
            _record_look(session, candidate, stage, look)
        if look.decision is not None or count == planned[-1] or (stage != "final" and is_futile(look)):
            return look
    raise ValueError(f"max_blocks is below the first look, {LOOKS[0]}")


def is_futile(look: Look) -> bool:
    """Whether more blocks are not worth it: no gain in sight. Stopping accepts nothing, so no error rate grows.

    The first look is coarse, so it stops only what lies clearly below the base.
    """
    return look.decision is None and look.estimate.ratio <= (FUTILE_AT_FIRST if look.blocks == LOOKS[0] else 1.0)


def valid_blocks(session: Session, candidate: str, stage: Stage) -> list[k.BlockMeasured]:
    """The valid blocks of a stage, oldest first."""
    return [block for block in _blocks(session, candidate, stage) if block.valid]


def log_ratios(session: Session, candidate: str, stage: Stage) -> list[float]:
    """Oriented log-ratios of the valid blocks."""
    return [
        oriented_log(session.goal, block.candidate_value) - oriented_log(session.goal, block.base_value)
        for block in valid_blocks(session, candidate, stage)
        if block.candidate_value is not None and block.base_value is not None
    ]


def block_wall_s(session: Session) -> float:
    """Seconds that one block takes: the mean so far, or twice the mean launch."""
    blocks = [b.wall_s for c in session.state.candidates.values() for b in c.blocks if b.valid]
    if blocks:
        return sum(blocks) / len(blocks)
    launches = [launch.wall_s for launch in session.state.launches_ended.values() if launch.outcome == "stopped"]
    return 2 * sum(launches) / len(launches) if launches else 2 * session.stack.limits.start_timeout_s


def record_noise(session: Session) -> None:
    """Update the noise floor from stock's launches: at least three are needed."""
    logs = launch_logs(session.state, session.goal, STOCK)
    if len(logs) < 3:
        return
    sd_log = noise_sd([logs])
    session.ledger.append(
        k.NoiseKnown(
            sd_log=sd_log, mde_ratio=mde_ratio(sd_log * 2**0.5, MDE_BLOCKS), blocks=MDE_BLOCKS, samples=len(logs),
            source="stock arms",
        )
    )  # fmt: skip


def _planned(session: Session, candidate: str, stage: Stage) -> int:
    """How far the plan of a stage was used. The final relaunch of a later winner gets seeds of its own."""
    users = session.state.candidates if stage == "final" else (candidate,)
    return sum(len(_blocks(session, id, stage)) for id in users)


def _blocks(session: Session, candidate: str, stage: Stage) -> list[k.BlockMeasured]:
    return [block for block in session.state.candidates[candidate].blocks if block.stage == stage]


def _measure_block(session: Session, candidate: str, base: str, stage: Stage, lane: k.Lane, block: Block) -> None:
    started_s = session.clock()
    measured: dict[Arm, Measured] = {}
    reason = ""
    for arm in block.order:
        which = candidate if arm is Arm.CANDIDATE else base
        session.narrator.status(f"{stage} {candidate} against {base}: block {block.index + 1}, {arm} arm")
        try:
            measured[arm] = _measure_arm(session, which, arm, stage, lane, block.seed)
        except StackError as error:
            reason = f"{arm} arm: {error.message}"
            break
    reason = reason or _not_comparable(measured)
    base_arm, candidate_arm = measured.get(Arm.BASE), measured.get(Arm.CANDIDATE)
    session.ledger.append(
        k.BlockMeasured(
            candidate=candidate, base=base, stage=stage, index=block.index,
            order=(block.order[0].value, block.order[1].value), seed=block.seed, valid=not reason,
            base_value=base_arm.value if base_arm and not reason else None,
            candidate_value=candidate_arm.value if candidate_arm and not reason else None,
            base_observation=base_arm.id if base_arm else "",
            candidate_observation=candidate_arm.id if candidate_arm else "",
            reason=reason, wall_s=session.clock() - started_s,
        )
    )  # fmt: skip
    _tell_block(session, candidate, base, stage, reason)


def _measure_arm(session: Session, which: str, arm: Arm, stage: Stage, lane: k.Lane, seed: int) -> Measured:
    purpose: Literal["final", "block"] = "final" if stage == "final" else "block"
    with launched(session, which, arm=arm.value, purpose=purpose, lane=lane) as launch:
        return measure_load(session, launch, candidate=which, lane=lane, purpose=purpose, seed=seed)


def _not_comparable(measured: dict[Arm, Measured]) -> str:
    """Why the two arms may not be compared; empty when they may."""
    for arm, result in measured.items():
        if result.value is None:
            return f"{arm} arm: {result.observation.summary}"
    tokens = [measured[arm].observation.quantity("mean_output_tokens") for arm in (Arm.BASE, Arm.CANDIDATE)]
    if tokens[0] is not None and tokens[1] is not None and tokens[1].value < SHORT_ANSWERS * tokens[0].value:
        return f"candidate arm: it says less, {tokens[1].value:.1f} tokens per request against {tokens[0].value:.1f}"
    return ""


def _tell_block(session: Session, candidate: str, base: str, stage: Stage, reason: str) -> None:
    logs = log_ratios(session, candidate, stage)
    label = {"prove": "Proving", "final": "Final", "honesty": "Honesty"}[stage]
    if reason:
        session.narrator.line(label, f"{candidate} against {base}   block not valid, measured again: {reason}")
        return
    running = math.exp(sum(logs) / len(logs))
    left_s = session.budget.remaining_s()
    session.narrator.line(
        label,
        f"{candidate} against {base}   block {len(logs)}   x{running:.2f}   {left_s / 60:.0f} min of budget left",
        session.state.candidates[candidate].blocks[-1].wall_s,
    )


def _record_look(session: Session, candidate: str, stage: Stage, look: Look) -> None:
    session.ledger.append(
        k.Looked(
            candidate=candidate, stage=stage, blocks=look.blocks, alpha=look.alpha,
            estimate=k.EstimateData.model_validate(estimate_data_fields(look.estimate)),
            decision=look.decision.value if look.decision else None, reason=look.reason,
        )
    )  # fmt: skip
