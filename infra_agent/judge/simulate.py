"""The judge's own rule on many simulated candidates at once: how often is it wrong, how soon is it right?

Blocks follow the orders that `plan_blocks` plans; figures are chosen, estimated and guarded as in a run.
Covered: all looks with their guards, except constraints (they are the goal's).
Not covered: stopping early where no gain is in sight (`harness.proving`): it accepts nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from infra_agent.judge.decide import BETTER, DEFAULT_THRESHOLD, GO_ON, NO_GAIN, SLOWER, classify
from infra_agent.judge.estimate import FloatArray, estimate_rows, walsh_averages
from infra_agent.judge.plan import LOOKS, plan_blocks
from infra_agent.judge.spending import SPENDING
from infra_agent.judge.stalls import DOUBT_P, HARM_P, BoolArray, more_stalls_p, net_of_losses, rare
from infra_agent.judge.types import Arm
from infra_agent.judge.worlds import World, simulate_runs

PLANS = 256
STALLS_MORE = -3
"""Code of a candidate that is rejected because it stalls more; the others are `decide`'s."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of many candidates (rows, blocks): oriented log-ratios, and the log of what stalls cost each arm."""

    plain: FloatArray
    base_loss: FloatArray
    candidate_loss: FloatArray

    def first(self, count: int, rows: NDArray[np.int64]) -> Blocks:
        """The first blocks of some rows."""
        return Blocks(*(values[rows, :count] for values in (self.plain, self.base_loss, self.candidate_loss)))

    @property
    def stall_free(self) -> FloatArray:
        """The log-ratios without what stalls cost."""
        return self.plain + self.candidate_loss - self.base_loss

    @property
    def log_ratios(self) -> FloatArray:
        """The log-ratios that are compared."""
        exception = rare(self.base_loss > 0, self.candidate_loss > 0)
        return np.where(exception[:, None], self.stall_free, self.plain)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One entry per simulated candidate: the code where it stopped, the blocks it took, its estimate."""

    codes: NDArray[np.int8]
    blocks: NDArray[np.int64]
    ratio: FloatArray
    low: FloatArray
    high: FloatArray

    def rate(self, *codes: int) -> float:
        """Share that ended with one of these codes."""
        return float(np.isin(self.codes, codes).mean())

    def held(self, effect_ratio: float) -> float:
        """Share whose interval at the look where it stopped holds the true ratio."""
        return float(((self.low <= effect_ratio) & (effect_ratio <= self.high)).mean())


def simulate_blocks(
    world: World, effect_ratio: float, rows: int, rng: np.random.Generator, blocks: int = LOOKS[-1]
) -> Blocks:
    """Blocks in planned order, each of two fresh launches."""
    plans = planned_orders(blocks)
    candidate_first = plans[rng.integers(len(plans), size=rows)]
    arms = np.stack([candidate_first, ~candidate_first], axis=2).reshape(rows, 2 * blocks)
    runs = simulate_runs(world, arms, effect_ratio, rng)

    base, candidate = _arms(runs.plain, candidate_first)
    base_loss, candidate_loss = _arms(runs.loss, candidate_first)
    return Blocks(plain=candidate - base, base_loss=base_loss, candidate_loss=candidate_loss)


def _arms(runs: FloatArray, candidate_first: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Runs in time order as (base, candidate), one entry per block."""
    pairs = runs.reshape(*candidate_first.shape, 2)
    first, second = pairs[:, :, 0], pairs[:, :, 1]
    return np.where(candidate_first, second, first), np.where(candidate_first, first, second)


@lru_cache(maxsize=8)
def planned_orders(blocks: int) -> BoolArray:
    """For the run seeds 0 to `PLANS` - 1: True where a block launches the candidate first. Read-only."""
    orders = np.array([[b.order[0] is Arm.CANDIDATE for b in plan_blocks(seed, blocks)] for seed in range(PLANS)])
    orders.setflags(write=False)
    return orders


def judge_rows(measured: Blocks, threshold: float = DEFAULT_THRESHOLD) -> Outcomes:
    """The judge at all its looks, for every row."""
    rows, available = measured.plain.shape
    codes = np.full(rows, GO_ON, dtype=np.int8)
    blocks = np.zeros(rows, dtype=np.int64)
    ratio, low, high = np.ones((3, rows))
    for look in (look for look in LOOKS if look <= available):
        left = np.flatnonzero(codes == GO_ON)
        if left.size == 0:
            break
        part = measured.first(look, left)
        found = estimate_rows(part.log_ratios, SPENDING[look])
        ratio[left], low[left], high[left] = np.exp(found.centre), np.exp(found.low), np.exp(found.high)
        codes[left] = _guarded(classify(ratio[left], low[left], high[left], threshold), part)
        blocks[left] = look
    return Outcomes(codes=codes, blocks=blocks, ratio=ratio, low=low, high=high)


def covers(log_ratios: FloatArray, effect_ratio: float, alpha: float = 0.05) -> float:
    """Share of rows whose interval at this fixed number of blocks holds the true ratio."""
    found = estimate_rows(log_ratios, alpha)
    truth = math.log(effect_ratio)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def _guarded(codes: NDArray[np.int8], measured: Blocks) -> NDArray[np.int8]:
    """What stalls do to the codes: the same as the guards of `evidence` do in a run."""
    more = more_stalls_p(measured.base_loss > 0, measured.candidate_loss > 0)
    gain = np.median(walsh_averages(measured.stall_free), axis=1)
    net = net_of_losses(gain, measured.base_loss, measured.candidate_loss)
    held_back = (codes == BETTER) & ((more <= DOUBT_P) | (net < 0))
    codes = np.where(held_back, GO_ON, codes)
    undecided = (codes != SLOWER) & (codes != NO_GAIN)
    return np.where(undecided & (more <= HARM_P), STALLS_MORE, codes).astype(np.int8)
