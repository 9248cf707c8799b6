"""The noise floor, from launches of the same configuration, and what it allows to be proved.

Values are natural logs of the goal's metric, one per launch; a group holds launches of one configuration.
Covered: pooled and robust standard deviation, minimum detectable ratio, share of stalled launches with its interval.
Not covered: telling run noise, launch effect and drift apart; a drift that a block does not cancel is part of a
block's noise and is seen only in blocks (`block_sd`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from infra_agent.judge.estimate import t_quantile

Groups = Sequence[Sequence[float]]

_QUARTILE = 0.6744897501960817
_Z95 = 1.959963984540054
STALL_LOSS = 0.15
STALL_SDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StallRate:
    """Share of launches that fell far below their configuration's median, with a 95 % Wilson interval."""

    stalled: int
    launches: int
    rate: float
    low: float
    high: float


def noise_sd(samples_log: Groups, *, robust: bool = False) -> float:
    """Standard deviation of one launch's log value within a configuration.

    `robust` uses the median distance of two launches, which a few stalls do not move. ValueError when no group has two
    launches or a value is not finite.
    """
    groups = _checked(samples_log)
    if not groups:
        raise ValueError("noise needs at least two launches of one configuration")
    if robust:
        distances = [abs(a - b) for group in groups for a, b in combinations(group.tolist(), 2)]
        return float(np.median(distances)) / (_QUARTILE * math.sqrt(2))
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return math.sqrt(squares / sum(group.size - 1 for group in groups))


def block_sd_from_launches(sd_launch_log: float) -> float:
    """Standard deviation of a block's log-ratio when nothing drifts between its two launches: sqrt(2) times one's."""
    return math.sqrt(2) * sd_launch_log


def block_sd(log_ratios: Sequence[float]) -> float:
    """Standard deviation of measured block log-ratios; what drift leaves inside a block is in it."""
    return noise_sd([log_ratios])


def mde_ratio(sd_log_block: float, blocks: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """Smallest true ratio above 1 that `blocks` blocks show with this power in one two-sided test."""
    if not (math.isfinite(sd_log_block) and sd_log_block >= 0):
        raise ValueError(f"a standard deviation is at least 0, not {sd_log_block}")
    if blocks < 2:
        raise ValueError(f"a detectable effect needs at least 2 blocks, not {blocks}")
    if not (0 < power < 1 and 0 < alpha < 1):
        raise ValueError("power and alpha lie between 0 and 1")
    quantiles = t_quantile(1 - alpha / 2, blocks - 1) + t_quantile(power, blocks - 1)
    return math.exp(quantiles * sd_log_block / math.sqrt(blocks))


def stall_rate(samples_log: Groups) -> StallRate:
    """Launches more than 15 % and more than 5 robust deviations below their group's median.

    Logs are oriented so that above is better. Groups of fewer than 3 have no usable median and are left out.
    """
    groups = [group for group in _checked(samples_log) if group.size >= 3]
    if not groups:
        raise ValueError("a stall shows only among three launches of one configuration or more")
    far = max(-math.log1p(-STALL_LOSS), STALL_SDS * noise_sd([group.tolist() for group in groups], robust=True))
    stalled = sum(int((group < np.median(group) - far).sum()) for group in groups)
    launches = sum(group.size for group in groups)
    low, high = wilson(stalled, launches)
    return StallRate(stalled=stalled, launches=launches, rate=stalled / launches, low=low, high=high)


def wilson(hits: int, trials: int, z: float = _Z95) -> tuple[float, float]:
    """Wilson's interval of a proportion; 95 % by default."""
    if not 0 <= hits <= trials or trials == 0:
        raise ValueError(f"no proportion: {hits} of {trials}")
    share, square = hits / trials, z * z / trials
    middle = (share + square / 2) / (1 + square)
    half = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def _checked(samples_log: Groups) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    groups = [np.asarray(group, dtype=np.float64).reshape(-1) for group in samples_log]
    if any(not np.isfinite(group).all() for group in groups):
        raise ValueError("a log value is not finite; failed launches are no noise samples")
    return [group for group in groups if group.size >= 2]
