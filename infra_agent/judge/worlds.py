"""Seeded worlds of runs in which the truth is known, down to the silences between tokens inside a run.

A run's log rate = effect of its arm + run noise + launch effect + drift. Drift goes by position in time, one step per
run: AR(1), a random walk, or a straight trend. A *pause* strikes a run at a random moment and lasts a fixed time, as
stalls seen on engines do (33 runs alike, 3 more each 0.92 s longer); the run's figure without it is what the product's
own function (`probes.load.robust.excess_s`) makes of the silences, not an assumption. A *slow run* is slow from end to
end: nothing inside it shows.

Covered: closed-loop windows of an engine that reads prompts and decodes in lock step.
Not covered: real engines; drift inside a launch; effects that change with time; arrivals that are not a closed loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from infra_agent.judge.estimate import FloatArray
from infra_agent.judge.stalls import BoolArray
from probes.load.robust import excess_s

ROUNDS, CONCURRENCY, TOKENS = 3, 4, 32
"""Of a simulated window: 12 requests, four at a time, 32 tokens each."""
PROMPT_STEPS = 4.0
"""Reading a round's prompts takes as long as so many decoding steps."""
STEP_SD = 0.1
"""Standard deviation of the log of one silence."""
_RUNS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How runs vary. `*_sd` are in logs. A stall makes a run of average speed `stall_factor` times as fast.

    `held` is False for a world outside what the rule promises. `candidate_stall_rate`: where the change itself stalls.
    """

    name: str
    run_sd: float = 0.0
    launch_sd: float = 0.0
    drift_sd: float = 0.0
    drift_phi: float = 0.9
    walk_sd: float = 0.0
    trend_per_run: float = 0.0
    stall_rate: float = 0.0
    candidate_stall_rate: float | None = None
    stall_factor: float = 0.64
    stall: Literal["pause", "slow run"] = "pause"
    held: bool = True


WORLDS: tuple[World, ...] = (
    World(name="drift", run_sd=0.012, launch_sd=0.01, drift_sd=0.02),
    World(name="drift, stalls", run_sd=0.012, launch_sd=0.01, drift_sd=0.02, stall_rate=0.08),
    World(name="drift, slow runs", run_sd=0.012, launch_sd=0.01, drift_sd=0.02, stall_rate=0.08, stall="slow run"),
    World(name="steady", run_sd=0.012, launch_sd=0.01),
    World(name="noisy, drift", run_sd=0.05, launch_sd=0.01, drift_sd=0.02),
    World(name="noisy, drift, stalls", run_sd=0.05, launch_sd=0.01, drift_sd=0.02, stall_rate=0.08),
    World(name="very noisy", run_sd=0.2),
    World(name="drift, 20 % stalls", run_sd=0.012, launch_sd=0.01, drift_sd=0.02, stall_rate=0.2),
    World(name="random walk", run_sd=0.02, walk_sd=0.005),
    World(name="warming trend", run_sd=0.012, launch_sd=0.01, trend_per_run=0.005),
    World(name="two modes 5 %", run_sd=0.012, drift_sd=0.02, stall_rate=0.5, stall_factor=0.95, stall="slow run"),
    World(name="two modes 36 %", run_sd=0.012, drift_sd=0.02, stall_rate=0.5, stall="slow run", held=False),
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs in time order, one row per comparison: plain log rate, and what the product sees lost to stalls (log)."""

    plain: FloatArray
    loss: FloatArray


def simulate_runs(
    world: World, candidate: BoolArray, effect_ratio: float, rng: np.random.Generator, *, relaunched: bool = True
) -> Runs:
    """Runs in time order; `candidate` (rows, runs) says which arm each one is.

    `relaunched`: every run has a launch of its own; else all runs of an arm share one launch and its effect.
    """
    values = _without_stalls(world, candidate, effect_ratio, rng, relaunched)
    rate = np.full(candidate.shape, world.stall_rate)
    if world.candidate_stall_rate is not None:
        rate[candidate] = world.candidate_stall_rate
    if not rate.any():
        return Runs(values, np.zeros_like(values))
    struck = rng.random(candidate.shape) < rate
    if world.stall == "slow run":
        return Runs(values + np.where(struck, math.log(world.stall_factor), 0.0), np.zeros_like(values))
    plain, loss = _inside(values.ravel(), struck.ravel(), 1 / world.stall_factor - 1, rng)
    return Runs(plain.reshape(values.shape), loss.reshape(values.shape))


def silences_of(values: FloatArray, struck: BoolArray, pause_s: float, rng: np.random.Generator) -> FloatArray:
    """The silences of runs with these log rates (rows, silences); a run of rate 1 lasts 1 s. Struck ones are longer."""
    kinds = opening_silences()
    lengths = np.exp(rng.normal(0.0, STEP_SD, (values.size, kinds.size))) * np.where(kinds, PROMPT_STEPS, 1.0)
    lengths *= (np.exp(-values) / lengths.sum(axis=1))[:, None]
    moment = rng.random(values.size) * lengths.sum(axis=1)
    hit = (np.cumsum(lengths, axis=1) < moment[:, None]).sum(axis=1).clip(max=kinds.size - 1)
    lengths[np.arange(values.size), hit] += np.where(struck, pause_s, 0.0)
    return lengths


def opening_silences() -> BoolArray:
    """Which silences of a simulated window end with the first contents of a round."""
    return np.tile(np.arange(TOKENS) == 0, ROUNDS)


def _inside(
    values: FloatArray, struck: BoolArray, pause_s: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Plain log rates, and what the product's own function finds lost to stalls."""
    plain, loss = np.empty_like(values), np.empty_like(values)
    for start in range(0, values.size, _RUNS_AT_ONCE):
        part = slice(start, start + _RUNS_AT_ONCE)
        silences_s = silences_of(values[part], struck[part], pause_s, rng)
        window_s = silences_s.sum(axis=1)
        plain[part] = -np.log(window_s)
        lost_s = excess_s(silences_s, opening_silences()[None, :]).sum(axis=1)
        loss[part] = -np.log1p(-lost_s / window_s)
    return plain, loss


def _without_stalls(
    world: World, candidate: BoolArray, effect_ratio: float, rng: np.random.Generator, relaunched: bool
) -> FloatArray:
    shape = candidate.shape
    values = rng.normal(0.0, world.run_sd, shape) + np.where(candidate, math.log(effect_ratio), 0.0)
    launches = rng.normal(0.0, world.launch_sd, shape)
    values += launches if relaunched else np.where(candidate, launches[:, :1], launches[:, 1:2])
    values += world.trend_per_run * np.arange(shape[1])
    if world.walk_sd:
        values += np.cumsum(rng.normal(0.0, world.walk_sd, shape), axis=1)
    if world.drift_sd:
        values += _drift(world, shape, rng)
    return values


def _drift(world: World, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Stationary AR(1) with standard deviation `drift_sd`."""
    steps = rng.normal(0.0, world.drift_sd * math.sqrt(1 - world.drift_phi**2), shape)
    steps[:, 0] = rng.normal(0.0, world.drift_sd, shape[0])
    for position in range(1, shape[1]):
        steps[:, position] += world.drift_phi * steps[:, position - 1]
    return steps
