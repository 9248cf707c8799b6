"""Other acceptance rules in common use, and other intervals, for comparison with the judge in the same worlds.

None of this decides anything in a run. Each rule sees plain figures of runs in its customary order, an arm's runs on
one launch unless it says otherwise, and says which rows it accepts; sequential arms run one after the other.
Covered: single runs, best of five, two standard deviations, Welch, intervals apart, interleaved pairs, 7 + 7 apart;
BCa and widened percentile bootstrap of the Hodges-Lehmann estimate, plain t.
Not covered: the tools that use such rules; only the rule is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from infra_agent.judge.estimate import FloatArray
from infra_agent.judge.stalls import BoolArray
from infra_agent.judge.worlds import World, simulate_runs


@dataclass(frozen=True, slots=True)
class Rival:
    """A rule: the arms of its runs in time order (True = candidate), and what it accepts of (base, candidate)."""

    name: str
    arms: tuple[bool, ...]
    accepts: Callable[[FloatArray, FloatArray], BoolArray]
    relaunched: bool = True


def accept_rate(rival: Rival, world: World, effect_ratio: float, rows: int, rng: np.random.Generator) -> float:
    """Share of rows that the rule accepts."""
    arms = np.array(rival.arms)
    order = np.broadcast_to(arms, (rows, arms.size))
    values = simulate_runs(world, order, effect_ratio, rng, relaunched=rival.relaunched).plain
    return float(rival.accepts(values[:, ~arms], values[:, arms]).mean())


def _single(base: FloatArray, candidate: FloatArray) -> BoolArray:
    return np.asarray(candidate[:, 0] - base[:, 0] > math.log(1.01))


def _welch(base: FloatArray, candidate: FloatArray) -> BoolArray:
    result: Any = stats.ttest_ind(candidate, base, axis=1, equal_var=False)
    return np.asarray((result.pvalue < 0.05) & (candidate.mean(axis=1) > base.mean(axis=1)))


def _best_of(base: FloatArray, candidate: FloatArray) -> BoolArray:
    return np.asarray(candidate.max(axis=1) - base.max(axis=1) > math.log(1.01))


def _two_sds(base: FloatArray, candidate: FloatArray) -> BoolArray:
    return np.asarray(candidate.mean(axis=1) > base.mean(axis=1) + 2 * base.std(axis=1, ddof=1))


def _intervals_apart(base: FloatArray, candidate: FloatArray) -> BoolArray:
    return np.asarray(candidate.mean(axis=1) - _t_half(candidate) > base.mean(axis=1) + _t_half(base))


def _t_half(values: FloatArray) -> FloatArray:
    """Half the width of a 95 % t interval of each row's mean."""
    n = values.shape[1]
    return np.asarray(float(stats.t.ppf(0.975, n - 1)) * values.std(axis=1, ddof=1) / math.sqrt(n))


def _two_pairs(base: FloatArray, candidate: FloatArray) -> BoolArray:
    gains = candidate - base
    return np.asarray((gains > 0).all(axis=1) & (np.median(gains, axis=1) > math.log(1.03)))


def _apart(base: FloatArray, candidate: FloatArray) -> BoolArray:
    gain = np.median(candidate, axis=1) - np.median(base, axis=1)
    return np.asarray((gain > math.log(1.005)) & (candidate.min(axis=1) > base.max(axis=1)))


_FIVE_EACH = (False,) * 5 + (True,) * 5

RIVALS: tuple[Rival, ...] = (
    Rival("one run each, more than 1 % better", (False, True), _single),
    Rival("best of 5 each, more than 1 % better", _FIVE_EACH, _best_of, relaunched=False),
    Rival("5 + 5 in sequence, mean above base mean + 2 sd", _FIVE_EACH, _two_sds, relaunched=False),
    Rival("5 + 5 in sequence, Welch t", _FIVE_EACH, _welch, relaunched=False),
    Rival("5 + 5 in sequence, 95 % intervals apart", _FIVE_EACH, _intervals_apart, relaunched=False),
    Rival("2 interleaved pairs agree, median above 3 %", (False, True) * 2, _two_pairs),
    Rival("7 + 7 interleaved, slowest above fastest", (False, True) * 7, _apart),
)


def bca_covers(log_ratios: FloatArray, effect_ratio: float, rng: np.random.Generator, resamples: int = 999) -> float:
    """Share of rows whose 95 % BCa bootstrap interval of the Hodges-Lehmann estimate holds the true ratio."""
    found: Any = stats.bootstrap(
        (log_ratios,), _hodges_lehmann, axis=1, n_resamples=resamples, method="BCa", batch=100, rng=rng
    ).confidence_interval
    truth = math.log(effect_ratio)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def widened_bootstrap(
    log_ratios: FloatArray, rng: np.random.Generator, resamples: int = 999
) -> tuple[FloatArray, FloatArray]:
    """Ends per row of a percentile bootstrap, its percentiles widened as t is wider than normal (Hesterberg 2015)."""
    n = log_ratios.shape[1]
    tail = float(stats.norm.cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1)))
    drawn = rng.integers(0, n, (resamples, n))
    ends = np.asarray([np.quantile(_hodges_lehmann(row[drawn]), [tail, 1 - tail]) for row in log_ratios])
    return ends[:, 0], ends[:, 1]


def t_covers(log_ratios: FloatArray, effect_ratio: float) -> float:
    """Share of rows whose plain 95 % t interval of the mean holds the true ratio."""
    return float((np.abs(log_ratios.mean(axis=1) - math.log(effect_ratio)) <= _t_half(log_ratios)).mean())


def _hodges_lehmann(values: FloatArray, axis: int = -1) -> FloatArray:
    moved = np.moveaxis(values, axis, -1)
    left, right = np.triu_indices(moved.shape[-1])
    return np.asarray(np.median((moved[..., left] + moved[..., right]) / 2, axis=-1))
