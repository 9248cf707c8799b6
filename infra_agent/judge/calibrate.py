"""The noise floor, from launches of the same configuration, and what it allows to be proved.

Values are natural logs of the goal's metric, one per launch; a group holds launches of one configuration.
Covered: A/A blocks (noise of a block, of a launch, and drift between blocks), launches in a row, pooled deviations,
what can be proved with how many blocks and in which time.
Not covered: telling run noise and launch effect apart, which would take two windows per launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infra_agent.judge.decide import blocks_needed, provable_ratio
from infra_agent.judge.plan import LOOKS

Groups = Sequence[Sequence[float]]

EFFECTS = (1.01, 1.02, 1.03, 1.05, 1.10, 1.20, 1.50, 2.0)
"""Gains whose cost is told."""


def noise_sd(samples_log: Groups) -> float:
    """Standard deviation of one launch's log value within a configuration.

    ValueError when no group has two launches or a value is not finite.
    """
    groups = _checked(samples_log)
    if not groups:
        raise ValueError("noise needs at least two launches of one configuration")
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return math.sqrt(squares / sum(group.size - 1 for group in groups))


def block_sd_from_launches(sd_launch_log: float) -> float:
    """Standard deviation of a block's log-ratio when nothing drifts between its two launches: sqrt(2) times one's."""
    return math.sqrt(2) * sd_launch_log


@dataclass(frozen=True, slots=True, kw_only=True)
class AaNoise:
    """What A/A blocks show: standard deviations of logs. `drift_sd`: what block means vary beyond launch noise."""

    block_sd: float
    launch_sd: float
    drift_sd: float
    blocks: int


def aa_noise(pairs: Sequence[tuple[float, float]]) -> AaNoise:
    """Noise from blocks whose two launches are the same configuration. ValueError below 3 blocks.

    The truth is known to be no difference, so the deviations are taken from 0 and each block is worth one of freedom.
    """
    values = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    if len(values) < 3 or not np.isfinite(values).all():
        raise ValueError("A/A noise needs three blocks of two finite values")
    block_sd = math.sqrt(float(((values[:, 1] - values[:, 0]) ** 2).mean()))
    between = float(values.mean(axis=1).var(ddof=1)) - block_sd**2 / 4
    return AaNoise(
        block_sd=block_sd,
        launch_sd=block_sd / math.sqrt(2),
        drift_sd=math.sqrt(max(0.0, between)),
        blocks=len(values),
    )


def block_sd_in_a_row(logs: Sequence[float]) -> float:
    """Standard deviation of a block's log-ratio, from launches of one configuration right after each other.

    Neighbours in the row are as far apart as the arms of a block, so slow drift is left out as a block leaves it out.
    """
    values = np.asarray(logs, dtype=np.float64)
    if values.size < 3 or not np.isfinite(values).all():
        raise ValueError("noise in a row needs three finite values")
    return math.sqrt(float((np.diff(values) ** 2).mean()))


def pooled_sd(*known: tuple[float, int]) -> float:
    """One standard deviation from several, each with its degrees of freedom."""
    freedom = sum(degrees for _, degrees in known)
    if freedom < 1:
        raise ValueError("nothing to pool")
    return math.sqrt(sum(sd * sd * degrees for sd, degrees in known) / freedom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a number of blocks proves four times in five: a true ratio of at least this."""

    ratio: float
    blocks: int
    wall_s: float


def reach_within(sd_block: float, block_s: float, time_s: float) -> Reach | None:
    """The smallest gain that can be proved in this time; None when not even the first look fits."""
    looks = [look for look in LOOKS if look * block_s <= time_s]
    reached = [Reach(ratio=provable_ratio(sd_block, n, 0.0), blocks=n, wall_s=n * block_s) for n in looks]
    return min(reached, key=lambda each: each.ratio, default=None)


def reach_of_effects(sd_block: float, block_s: float, effects: Sequence[float] = EFFECTS) -> dict[float, Reach | None]:
    """For each true gain the blocks and the time that prove it; None where 16 blocks do not."""
    needed = {effect: blocks_needed(effect, sd_block, threshold=0.0) for effect in effects}
    return {
        effect: None if blocks is None else Reach(ratio=effect, blocks=blocks, wall_s=blocks * block_s)
        for effect, blocks in needed.items()
    }


def _checked(samples_log: Groups) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    groups = [np.asarray(group, dtype=np.float64).reshape(-1) for group in samples_log]
    if any(not np.isfinite(group).all() for group in groups):
        raise ValueError("a log value is not finite; failed launches are no noise samples")
    return [group for group in groups if group.size >= 2]
