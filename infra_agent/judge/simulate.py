"""Seeded worlds of runs in which the truth is known, to measure how often a rule is wrong.

A run's log value = effect of its arm + run noise + launch effect + drift + stall. Drift goes by position in time,
one step per run: AR(1), a random walk, or a straight trend. Blocks follow the orders that `plan_blocks` plans.
Covered: block log-ratios of fresh-launch AB/BA, the judge's decision on many runs at once with the judge's own code.
Not covered: real engines; drift inside a launch; effects that change with time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from infra_agent.judge.decide import GO_ON, SPENDING, classify
from infra_agent.judge.estimate import FloatArray, estimate_rows
from infra_agent.judge.plan import LOOKS, plan_blocks
from infra_agent.judge.types import Arm

BoolArray = NDArray[np.bool_]
PLANS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How runs vary. `*_sd` are in logs; `held` is False for a world outside what the rule promises."""

    name: str
    run_sd: float = 0.0
    launch_sd: float = 0.0
    drift_sd: float = 0.0
    drift_phi: float = 0.9
    walk_sd: float = 0.0
    trend_per_run: float = 0.0
    stall_rate: float = 0.0
    stall_factor: float = 0.64
    held: bool = True


WORLDS: tuple[World, ...] = (
    World(name="steady", run_sd=0.012, launch_sd=0.01),
    World(name="drift", run_sd=0.012, launch_sd=0.01, drift_sd=0.02),
    World(name="drift, stalls", run_sd=0.012, launch_sd=0.01, drift_sd=0.02, stall_rate=0.08),
    World(name="noisy, drift", run_sd=0.05, launch_sd=0.01, drift_sd=0.02),
    World(name="noisy, drift, stalls", run_sd=0.05, launch_sd=0.01, drift_sd=0.02, stall_rate=0.08),
    World(name="very noisy", run_sd=0.2),
    World(name="random walk", run_sd=0.02, walk_sd=0.005),
    World(name="warming trend", run_sd=0.012, launch_sd=0.01, trend_per_run=0.005),
    World(name="two modes 5 %", run_sd=0.012, drift_sd=0.02, stall_rate=0.5, stall_factor=0.95),
    World(name="two modes 36 %", run_sd=0.012, drift_sd=0.02, stall_rate=0.5, held=False),
)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One entry per simulated candidate: the code of `classify` where it stopped, the blocks it took, its estimate."""

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


def run_logs(
    world: World, candidate: BoolArray, effect_ratio: float, rng: np.random.Generator, *, relaunched: bool = True
) -> FloatArray:
    """Log values of runs in time order; `candidate` (rows, runs) says which arm each one is.

    `relaunched`: every run has a launch of its own; else all runs of an arm share one launch and its effect.
    """
    shape = candidate.shape
    values = rng.normal(0.0, world.run_sd, shape) + np.where(candidate, math.log(effect_ratio), 0.0)
    launches = rng.normal(0.0, world.launch_sd, shape)
    values += launches if relaunched else np.where(candidate, launches[:, :1], launches[:, 1:2])
    values += world.trend_per_run * np.arange(shape[1])
    if world.walk_sd:
        values += np.cumsum(rng.normal(0.0, world.walk_sd, shape), axis=1)
    if world.drift_sd:
        values += _drift(world, shape, rng)
    if world.stall_rate:
        values += np.where(rng.random(shape) < world.stall_rate, math.log(world.stall_factor), 0.0)
    return values


def block_log_ratios(
    world: World, effect_ratio: float, rows: int, rng: np.random.Generator, blocks: int = LOOKS[-1]
) -> FloatArray:
    """Log-ratios (rows, blocks) of AB/BA blocks in planned order."""
    plans = planned_orders(blocks)
    candidate_first = plans[rng.integers(len(plans), size=rows)]
    arms = np.stack([candidate_first, ~candidate_first], axis=2).reshape(rows, 2 * blocks)
    values = run_logs(world, arms, effect_ratio, rng).reshape(rows, blocks, 2)
    difference: FloatArray = values[:, :, 0] - values[:, :, 1]
    return np.where(candidate_first, difference, -difference)


@lru_cache(maxsize=8)
def planned_orders(blocks: int) -> BoolArray:
    """For the run seeds 0 to `PLANS` - 1: True where a block launches the candidate first. Read-only."""
    orders = np.array([[b.order[0] is Arm.CANDIDATE for b in plan_blocks(seed, blocks)] for seed in range(PLANS)])
    orders.setflags(write=False)
    return orders


def judge_rows(log_ratios: FloatArray, threshold: float = 0.01) -> Outcomes:
    """The judge at all its looks, for every row of block log-ratios (rows, blocks)."""
    rows, available = log_ratios.shape
    codes = np.full(rows, GO_ON, dtype=np.int8)
    blocks = np.zeros(rows, dtype=np.int64)
    ratio, low, high = np.ones((3, rows))
    for look in (look for look in LOOKS if look <= available):
        open_rows = np.flatnonzero(codes == GO_ON)
        if open_rows.size == 0:
            break
        found = estimate_rows(log_ratios[open_rows, :look], SPENDING[look])
        ratio[open_rows], low[open_rows], high[open_rows] = np.exp(found.centre), np.exp(found.low), np.exp(found.high)
        codes[open_rows] = classify(ratio[open_rows], low[open_rows], high[open_rows], threshold)
        blocks[open_rows] = look
    return Outcomes(codes=codes, blocks=blocks, ratio=ratio, low=low, high=high)


def covers(log_ratios: FloatArray, effect_ratio: float, alpha: float = 0.05) -> float:
    """Share of rows whose fixed-size interval holds the true ratio."""
    found = estimate_rows(log_ratios, alpha)
    truth = math.log(effect_ratio)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def _drift(world: World, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Stationary AR(1) with standard deviation `drift_sd`."""
    steps = rng.normal(0.0, world.drift_sd * math.sqrt(1 - world.drift_phi**2), shape)
    steps[:, 0] = rng.normal(0.0, world.drift_sd, shape[0])
    for position in range(1, shape[1]):
        steps[:, position] += world.drift_phi * steps[:, position - 1]
    return steps
