"""What the ledger's blocks say of a candidate, in the judge's words.

Covered: valid blocks of a stage as log-ratios, what stalls cost each arm, constraints block by block.
Not covered: blocks that are not valid; they are counted by `proving` and never judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal, NamedTuple

from infra_agent.goal.model import Goal, Limit
from infra_agent.harness.figure import beyond_log, limit_words, oriented_log, quantity_name
from infra_agent.harness.memory import quantity_in
from infra_agent.harness.stalls import STALLS, stall_free_name
from infra_agent.judge.estimate import difference
from infra_agent.judge.evidence import Evidence, LimitEvidence, Stalls
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState

Stage = Literal["prove", "final", "honesty"]


class ArmLogs(NamedTuple):
    """Oriented logs of one block's two figures, as they are compared."""

    base: float
    candidate: float


def valid_blocks(state: RunState, candidate: str, stage: Stage) -> list[k.BlockMeasured]:
    """The valid blocks of a stage with both figures, oldest first."""
    blocks = [b for b in state.candidates[candidate].blocks if b.stage == stage and b.valid]
    return [b for b in blocks if b.base_value is not None and b.candidate_value is not None]


def evidence_of(state: RunState, goal: Goal, candidate: str, stage: Stage) -> Evidence:
    """All that the valid blocks of a stage say."""
    blocks = valid_blocks(state, candidate, stage)
    logs = [_plain(goal, block) for block in blocks]
    return Evidence(
        plain=tuple(log.candidate - log.base for log in logs),
        stalls=_stalls(state, goal, blocks, logs),
        limits=tuple(_limit(state, limit, blocks) for limit in goal.constraints.limits),
    )


def plain_difference(blocks: Sequence[k.BlockMeasured], alpha: float) -> k.DifferenceData:
    """Candidate minus base in the metric's own unit, stalls and all, with the interval of this level."""
    pairs = [(block.base_value, block.candidate_value) for block in blocks]
    values = [value - base for base, value in pairs if base is not None and value is not None]
    return k.DifferenceData(**asdict(difference(values, alpha)))


def arm_logs(state: RunState, goal: Goal, candidate: str, stage: Stage) -> list[ArmLogs]:
    """Both arms' figures block by block, with or without stalls as the judge compares them."""
    blocks = valid_blocks(state, candidate, stage)
    logs = [_plain(goal, block) for block in blocks]
    found = evidence_of(state, goal, candidate, stage)
    if found.stalls is None or found.basis == "plain":
        return logs
    base, changed = found.stalls
    return [ArmLogs(log.base + b, log.candidate + c) for log, b, c in zip(logs, base.loss, changed.loss, strict=True)]


def _plain(goal: Goal, block: k.BlockMeasured) -> ArmLogs:
    assert block.base_value is not None
    assert block.candidate_value is not None
    return ArmLogs(oriented_log(goal, block.base_value), oriented_log(goal, block.candidate_value))


def _stalls(
    state: RunState, goal: Goal, blocks: Sequence[k.BlockMeasured], logs: Sequence[ArmLogs]
) -> tuple[Stalls, Stalls] | None:
    """Stalls of base and candidate; None when one of the windows cannot tell."""
    base = [_lost(state, goal, b.base_observation, log.base) for b, log in zip(blocks, logs, strict=True)]
    changed = [_lost(state, goal, b.candidate_observation, log.candidate) for b, log in zip(blocks, logs, strict=True)]
    if any(entry is None for entry in (*base, *changed)):
        return None
    return _arm(base), _arm(changed)


def _arm(entries: Sequence[tuple[bool, float] | None]) -> Stalls:
    known = [entry for entry in entries if entry is not None]
    return Stalls(stalled=tuple(stalled for stalled, _ in known), loss=tuple(loss for _, loss in known))


def _lost(state: RunState, goal: Goal, observation: str, plain: float) -> tuple[bool, float] | None:
    """Whether a window stalled, and the log of what that cost the goal's figure."""
    made = state.observations.get(observation)
    count = quantity_in(made, STALLS) if made is not None else None
    if made is None or count is None:
        return None
    name = stall_free_name(goal.metric, goal.statistic)
    without = quantity_in(made, name) if name is not None and count > 0 else None
    loss = max(0.0, oriented_log(goal, without) - plain) if without is not None and without > 0 else 0.0
    return count > 0, loss


def _limit(state: RunState, limit: Limit, blocks: Sequence[k.BlockMeasured]) -> LimitEvidence:
    name = f"{quantity_name(limit.metric, limit.statistic)} {limit_words(limit)}"
    return LimitEvidence(name=name, beyond=tuple(_beyond(state, limit, block) for block in blocks))


def _beyond(state: RunState, limit: Limit, block: k.BlockMeasured) -> float | None:
    """Log of how far the candidate's figure lies beyond the limit in a block; None where it was not measured."""
    name = quantity_name(limit.metric, limit.statistic)
    base, candidate = (
        quantity_in(made, name) if (made := state.observations.get(observation)) is not None else None
        for observation in (block.base_observation, block.candidate_observation)
    )
    return beyond_log(limit, candidate, base)
