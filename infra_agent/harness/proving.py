"""Takes a candidate to the judge: AB/BA blocks with a fresh launch per arm, until a planned look decides.

Covered: blocks that are not valid (measured again in the same order), neighbours, looks of earlier sessions.
Not covered: what a look says (`judge`), and what follows from it (`verdicts`).
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from infra_agent.errors import StackError
from infra_agent.harness import disturbance
from infra_agent.harness.evidence import Stage, evidence_of, plain_difference, valid_blocks
from infra_agent.harness.experiment.exact import different, is_exact
from infra_agent.harness.experiment.measuring import Wanted
from infra_agent.harness.ladder import SHORT_ANSWERS, estimate_data_fields
from infra_agent.harness.measuring import CLIENT_CHECKS, Measured
from infra_agent.harness.session import Session
from infra_agent.harness.windows import measure_once
from infra_agent.judge import evidence as judging
from infra_agent.judge.decide import DEFAULT_THRESHOLD
from infra_agent.judge.estimate import MIN_BLOCKS, estimate
from infra_agent.judge.evidence import Evidence
from infra_agent.judge.exact import EXACT_BLOCKS, EXACT_REPEATS, exact_estimate, exact_look
from infra_agent.judge.plan import LOOKS, next_block
from infra_agent.judge.types import Arm, Block, Look
from infra_agent.ledger import kinds as k

MAX_BAD_BLOCKS = 3
MAX_CANDIDATE_FAULTS = 2
"""A candidate that fails in two of its launches is not judged by the launches that survive."""
CANDIDATE_FAULT = "candidate"
MAX_DISTURBED_IN_A_ROW = 6
DISTURBED = ("neighbour", "throttled", "client")
QUIET_WAIT_S = 30.0
_QUIET_SAMPLE_S = 1.0
FUTILE_AT_FIRST = 0.97


def measure_blocks(
    session: Session, candidate: str, base: str, stage: Stage, lane: k.Lane, count: int, *, repeat: bool = False
) -> Evidence:
    """Measure until `count` valid blocks exist; returns what they say. `repeat`: all on the seed of the first.

    Blocks of earlier sessions count. Raises StackError after three bad blocks, BudgetSpent when time is out.
    """
    while True:
        done = _blocks(session, candidate, stage)
        valid = sum(block.valid for block in done)
        if valid >= count:
            return evidence_of(session.state, session.goal, candidate, stage).first(count)
        _require_measurable(done, candidate, base)
        session.budget.require(block_wall_s(session), "another block")
        block = next_block(session.seed, valid, _planned(session, candidate, stage), stage)
        block = replace(block, seed=done[0].seed) if repeat and done else block
        _measure_block(session, candidate, base, stage, lane, block)


def look_at(session: Session, candidate: str, base: str, stage: Stage, lane: k.Lane, max_blocks: int) -> Look:
    """Measure up to each planned look in turn until the judge decides or `max_blocks` are done.

    Looks of earlier sessions are computed again from the same blocks, not recorded twice.
    """
    exact = _exact_look(session, candidate, base, stage, lane)
    if exact is not None:
        return exact
    planned = [count for count in LOOKS if count <= max_blocks]
    taken = {look.blocks for look in session.state.candidates[candidate].looks if look.stage == stage}
    for count in planned:
        found = measure_blocks(session, candidate, base, stage, lane, count)
        look = judging.look_at(found, max_blocks=planned[-1])
        if count not in taken:
            _record_look(session, candidate, stage, look, found)
        if look.decision is not None or count == planned[-1] or (stage != "final" and is_futile(look)):
            return look
    raise ValueError(f"max_blocks is below the first look, {LOOKS[0]}")


def _exact_look(session: Session, candidate: str, base: str, stage: Stage, lane: k.Lane) -> Look | None:
    """What equal repeats say; None when figures vary, or are not declared not to: then blocks judge them."""
    if not is_exact(session.state, session.goal):
        return None
    measure_blocks(session, candidate, base, stage, lane, EXACT_REPEATS, repeat=True)
    found = measure_blocks(session, candidate, base, stage, lane, EXACT_BLOCKS)
    if not is_exact(session.state, session.goal):
        tell_difference(session)
        return None
    look = exact_look(found, DEFAULT_THRESHOLD)
    if not any(taken.stage == stage for taken in session.state.candidates[candidate].looks):
        _record_look(session, candidate, stage, look, found)
    return look


def tell_difference(session: Session) -> None:
    """Figures that were declared deterministic are not: said once, and measured in blocks from here on."""
    text = (
        f"declared deterministic, but equal runs differ: {different(session.state, session.goal)}; measured in blocks"
    )
    if not any(note.text == text for note in session.state.notes):
        session.ledger.append(k.Note(topic="warning", text=text))
        session.narrator.line("Repeats", text)


def is_futile(look: Look) -> bool:
    """Whether more blocks are not worth it: no gain in sight. Stopping accepts nothing, so no error rate grows.

    The first look is coarse, so it stops only what lies clearly below the base.
    """
    return look.decision is None and look.estimate.ratio <= (FUTILE_AT_FIRST if look.blocks == LOOKS[0] else 1.0)


def block_wall_s(session: Session) -> float:
    """Seconds that one block takes: the mean so far, or twice the mean launch."""
    blocks = [b.wall_s for c in session.state.candidates.values() for b in c.blocks if b.valid]
    if blocks:
        return sum(blocks) / len(blocks)
    launches = [launch.wall_s for launch in session.state.launches_ended.values() if launch.outcome == "stopped"]
    return 2 * sum(launches) / len(launches) if launches else 2 * session.stack.limits.start_timeout_s


def _planned(session: Session, candidate: str, stage: Stage) -> int:
    """How far the plan of a stage was used. The final relaunch of a later winner gets seeds of its own."""
    users = session.state.candidates if stage == "final" else (candidate,)
    return sum(len(_blocks(session, id, stage)) for id in users)


def _blocks(session: Session, candidate: str, stage: Stage) -> list[k.BlockMeasured]:
    return [block for block in session.state.candidates[candidate].blocks if block.stage == stage]


def _require_measurable(done: list[k.BlockMeasured], candidate: str, base: str) -> None:
    """Give up on a pair that cannot be measured. What disturbs from outside is nobody's fault and may pass."""
    where = f"{candidate} against {base}"
    in_a_row = list(takewhile(lambda block: block.reason.startswith(DISTURBED), reversed(done)))
    if len(in_a_row) >= MAX_DISTURBED_IN_A_ROW:
        raise StackError(
            f"{len(in_a_row)} blocks in a row were disturbed from outside: {in_a_row[0].reason}",
            where=where,
            hint='stop what else is running, or set limits.neighbours = "record" to measure in spite of it',
        )
    bad = [block for block in done if not block.valid and not block.reason.startswith(DISTURBED)]
    faults = sum(block.reason.startswith(CANDIDATE_FAULT) for block in bad)
    if len(bad) >= MAX_BAD_BLOCKS or faults >= MAX_CANDIDATE_FAULTS:
        raise StackError(f"{len(bad)} blocks were not valid: {bad[-1].reason}", where=where)


def _measure_block(session: Session, candidate: str, base: str, stage: Stage, lane: k.Lane, block: Block) -> None:
    started_s = session.clock()
    earlier = disturbance.others_before(session.state.observations)
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
        reason = _disturbed(session, arm, measured[arm], earlier)
        if reason:
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
    if reason.startswith(DISTURBED):
        _wait_for_quiet(session, earlier)


def _measure_arm(session: Session, which: str, arm: Arm, stage: Stage, lane: k.Lane, seed: int) -> Measured:
    purpose: Literal["final", "block"] = "final" if stage == "final" else "block"
    return measure_once(session, Wanted(which, arm.value, purpose, lane, seed), purpose)


def _disturbed(session: Session, arm: Arm, measured: Measured, earlier: list[float]) -> str:
    """What happened outside the stack during a window and not in earlier ones; empty when nothing did."""
    observation, reason = measured.observation, ""
    if session.stack.limits.neighbours == "void" and not is_exact(session.state, session.goal):
        reason = disturbance.what_disturbed(observation.signals, earlier)
    late = next((check for check in observation.checks if check.name in CLIENT_CHECKS and not check.ok), None)
    if not reason and late is not None:
        reason = f"client late: {late.name} {late.measured} (limit: {late.limit})"
    return f"{reason}, during the {arm} arm" if reason else ""


def _wait_for_quiet(session: Session, earlier: list[float]) -> None:
    """Give a neighbour some time to end; launching beside it would only be measured again."""
    deadline_s = session.clock() + min(QUIET_WAIT_S, session.budget.remaining_s() / 4)
    while session.clock() < deadline_s:
        session.narrator.status("waiting for the neighbour to end")
        watch = disturbance.Watch()
        time.sleep(_QUIET_SAMPLE_S)
        if not disturbance.what_disturbed(watch.seen().signals(), earlier):
            return


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
    label = {"prove": "Proving", "final": "Final", "honesty": "Honesty"}[stage]
    pair = f"{candidate} against {base}"
    if reason:
        session.narrator.line(label, f"{pair}   block invalid: {reason}; it is measured again")
        return
    found = evidence_of(session.state, session.goal, candidate, stage)
    left_min = session.budget.remaining_s() / 60
    exact = is_exact(session.state, session.goal)
    words = f"x{exact_estimate(found.plain[-1:]).ratio:.4g} exactly" if exact else running_words(found)
    session.narrator.line(
        label,
        f"{pair}   block {len(found.plain)}   {words}   {left_min:.0f} min of budget left",
        session.state.candidates[candidate].blocks[-1].wall_s,
    )


def running_words(found: Evidence) -> str:
    """The ratio so far, with a 95 % interval from three blocks on: what a fixed number of blocks would say."""
    logs = found.log_ratios
    if len(logs) < MIN_BLOCKS:
        return f"x{math.exp(sum(logs) / len(logs)):.3g}"
    so_far = estimate(logs)
    stalled = sum(sum(arm.stalled) for arm in found.stalls) if found.stalls else 0
    words = f"x{so_far.ratio:.3g} [{so_far.low:.3g}, {so_far.high:.3g}]"
    return f"{words}, {stalled} of {2 * len(logs)} runs stalled" if stalled else words


def _difference(session: Session, candidate: str, stage: Stage, look: Look) -> k.DifferenceData | None:
    if is_exact(session.state, session.goal):
        return None
    return plain_difference(valid_blocks(session.state, candidate, stage)[: look.blocks], look.alpha)


def _record_look(session: Session, candidate: str, stage: Stage, look: Look, found: Evidence) -> None:
    base, changed = found.stalls or (None, None)
    session.ledger.append(
        k.Looked(
            candidate=candidate, stage=stage, blocks=look.blocks, alpha=look.alpha,
            estimate=k.EstimateData.model_validate(estimate_data_fields(look.estimate)),
            decision=look.decision.value if look.decision else None, reason=look.reason,
            basis=found.basis,
            guards=tuple(k.GuardData(name=g.name, state=g.state, p=g.p, reason=g.reason) for g in look.guards),
            difference=_difference(session, candidate, stage, look),
            base_stalls=sum(base.stalled) if base else None,
            candidate_stalls=sum(changed.stalled) if changed else None,
        )
    )  # fmt: skip
