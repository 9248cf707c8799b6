"""The screen: one launch of a candidate beside a few of the base. It ranks and it drops; it never claims.

The interval is a prediction interval of one launch: where would another launch of the base have come out?
Covered: base launches from one up; a prior noise while they are too few to show their own.
Not covered: a stall of the one candidate launch looks like a slow candidate (`docs/judge.md`); drift since the base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import stats

from infra_agent.judge.estimate import t_quantile
from infra_agent.judge.types import Estimate

Outcome = Literal["promote", "reject", "unclear"]

CONFIDENCE = 0.98
DEFAULT_SD_PRIOR = 0.05
SD_FLOOR = 0.01
"""Lowest standard deviation of one launch believed: two launches can agree by luck."""
OWN_NOISE_LAUNCHES = 3


def screen(
    candidate_log: float,
    base_logs: Sequence[float],
    sd_prior: float = DEFAULT_SD_PRIOR,
    threshold: float = 0.01,
) -> tuple[Estimate, Outcome, str]:
    """Estimate, outcome and reason. Values are logs of the metric, oriented so that above is better.

    `sd_prior` is the log standard deviation of one launch, used below 3 base launches. `n` counts all launches.
    Raises ValueError without a base launch, for a value that is not finite, or for a prior or threshold out of range.
    """
    base = np.asarray(base_logs, dtype=np.float64).reshape(-1)
    if base.size == 0:
        raise ValueError("a screen needs at least one launch of the base")
    if not (np.isfinite(base).all() and math.isfinite(candidate_log)):
        raise ValueError("a log value is not finite; a failed launch has nothing to screen")
    if not (math.isfinite(sd_prior) and sd_prior > 0 and 0.0 <= threshold < 1.0):
        raise ValueError(f"prior {sd_prior} and threshold {threshold} are out of range")
    gain = candidate_log - float(base.mean())
    half, method = _half_width(base.tolist(), sd_prior)
    found = Estimate(
        ratio=math.exp(gain),
        low=math.exp(gain - half),
        high=math.exp(gain + half),
        p=None,
        n=base.size + 1,
        confidence=CONFIDENCE,
        method=method,
    )
    outcome, reason = _outcome(found, threshold)
    return found, outcome, reason


def _half_width(base: Sequence[float], sd_prior: float) -> tuple[float, str]:
    k = len(base)
    spread = math.sqrt(1 + 1 / k)
    if k >= OWN_NOISE_LAUNCHES:
        sd = max(float(np.std(base, ddof=1)), SD_FLOOR)
        method = f"prediction interval of one launch, Student t, sd {100 * sd:.2g} % of {k} base launches"
        return t_quantile((1 + CONFIDENCE) / 2, k - 1) * sd * spread, method
    sd = max(sd_prior, SD_FLOOR)
    method = f"prediction interval of one launch, normal, sd {100 * sd:.2g} % assumed"
    return float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * sd * spread, method


def _outcome(found: Estimate, threshold: float) -> tuple[Outcome, str]:
    seen = f"one launch x{found.ratio:.3g}, launch noise alone spans [{found.low:.3g}, {found.high:.3g}]"
    asked = f"{100 * threshold:g} %"
    if found.high < 1.0 + threshold:
        return "reject", f"{seen}: even the upper end is below a gain of {asked}"
    if found.ratio >= 1.0 + threshold:
        return "promote", f"{seen}: worth proving; one launch claims nothing"
    return "unclear", f"{seen}: no gain of {asked} seen, and none ruled out"
