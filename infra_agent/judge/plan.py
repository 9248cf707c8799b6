"""The order and the seeds of the blocks, fixed by the run's seed before the first launch.

Covered: randomised AB/BA with both orders in every pair of blocks; one measurement seed per block, common to both arms;
seed streams of the stages that can never share a seed; plans that grow without changing what was planned before.
Not covered: what a seed is used for (the workload does that), and how often a block may be measured again.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from infra_agent.judge.types import Arm, Block

Stage = Literal["screen", "prove", "honesty", "calibrate", "final"]

LOOKS: tuple[int, ...] = (3, 6, 9, 12, 16)
MAX_INDEX = 255

_STAGES: tuple[str, ...] = get_args(Stage)
_INDEX_BITS = 8
_RANDOM_BITS = 20
_AB = (Arm.BASE, Arm.CANDIDATE)
_BA = (Arm.CANDIDATE, Arm.BASE)


def plan_blocks(seed: int, count: int, start: int = 0, stage: Stage = "prove") -> tuple[Block, ...]:
    """Blocks `start` to `start + count - 1` of a stage; a longer plan begins with the shorter one.

    Raises ValueError for a negative seed, count or start, an unknown stage, or an index above MAX_INDEX.
    """
    if seed < 0 or count < 0 or start < 0:
        raise ValueError(f"seed, count and start are at least 0, not {seed}, {count}, {start}")
    if stage not in _STAGES:
        raise ValueError(f"no stage {stage!r}; there are {', '.join(_STAGES)}")
    if start + count > MAX_INDEX + 1:
        raise ValueError(f"a stage has at most {MAX_INDEX + 1} blocks")
    return tuple(_block(seed, index, _STAGES.index(stage)) for index in range(start, start + count))


def next_block(seed: int, valid: int, used: int, stage: Stage = "prove") -> Block:
    """The block to measure when a pair has so many valid ones and so many of the stage's seeds were used.

    A block that replaces one that was not valid takes that one's order, so that the valid blocks keep both orders in
    each pair, and a measurement seed of its own.
    """
    if not 0 <= valid <= used:
        raise ValueError(f"{valid} valid blocks cannot have used {used} seeds")
    order = plan_blocks(seed, 1, start=valid, stage=stage)[0].order
    fresh = plan_blocks(seed, 1, start=used, stage=stage)[0]
    return Block(index=fresh.index, order=order, seed=fresh.seed)


def _block(seed: int, index: int, stage: int) -> Block:
    """Drawn per pair and per block, so that no block depends on how many others were asked for."""
    pair, second = divmod(index, 2)
    base_first = bool(np.random.default_rng((seed, stage, 0, pair)).integers(2))
    order = _AB if base_first != bool(second) else _BA
    return Block(index=index, order=order, seed=_measurement_seed(seed, index, stage))


def _measurement_seed(seed: int, index: int, stage: int) -> int:
    """31 bits: stage, random, index. The fixed fields make two stages or two blocks disjoint by construction."""
    drawn = int(np.random.default_rng((seed, stage, 1, index)).integers(1 << _RANDOM_BITS))
    return (((stage << _RANDOM_BITS) | drawn) << _INDEX_BITS) | index
