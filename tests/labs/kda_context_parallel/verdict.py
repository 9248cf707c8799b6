"""What the measured figures mean: how errors grow, which sites are culprits, and whether a version is clean.

Covered: a power law fitted to error over length, with a 95 % interval; culprits and verdicts against the error that
float32 arithmetic has by itself at the same length.
Not covered: laws other than a power of the length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

OVER_FLOAT32 = 16
"""A product does harm when it alone causes more than this many times float32's own error."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """error ~ length ** exponent; `low` and `high` are infinite with fewer than three lengths."""

    exponent: float
    low: float
    high: float
    points: int

    def __str__(self) -> str:
        return f"{self.exponent:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def growth(errors: Mapping[int, float]) -> Growth | None:
    """Least squares on logarithms over (length → error); None when an error is zero or fewer than two are known."""
    if len(errors) < 2 or not all(0 < error < np.inf for error in errors.values()):
        return None
    lengths, values = np.log(list(errors)), np.log(list(errors.values()))
    fit = stats.linregress(lengths, values)
    freedom = len(errors) - 2
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom) * fit.stderr) if freedom else float("inf")
    slope = float(fit.slope)
    return Growth(exponent=slope, low=slope - half, high=slope + half, points=len(errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteVerdict:
    """One site in one stage over all lengths."""

    stage: str
    file: str
    line: int
    column: int
    function: str
    kernels: tuple[str, ...]
    arithmetic: str
    alone: Mapping[int, float]
    without: Mapping[int, float]
    growth: Growth | None
    culprit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StageVerdict:
    """One stage as shipped: the error that narrow products cause, and what is left of it without its culprits."""

    stage: str
    shipped: Mapping[int, float]
    left: Mapping[int, float]
    against_exact: Mapping[int, Mapping[str, float]]
    growth: Growth | None
    verdict: str


def judge_site(
    stage: str, site: Mapping[str, Any], by_length: Mapping[int, Any], float32: Mapping[int, float]
) -> SiteVerdict:
    """`by_length`: length → this site's measured effect; `float32`: length → error of full float32."""
    alone = {length: float(effect["alone"]) for length, effect in by_length.items()}
    return SiteVerdict(
        stage=stage,
        **{name: site["site"][name] for name in ("file", "line", "column")},
        function=site["function"],
        kernels=tuple(site["kernels"]),
        arithmetic=site["arithmetic"],
        alone=alone,
        without={length: float(effect["without"]) for length, effect in by_length.items()},
        growth=growth(alone),
        culprit=_over(alone, float32),
    )


def judge_stage(stage: str, by_length: Mapping[int, Any], float32: Mapping[int, float]) -> StageVerdict:
    """`by_length`: length → what was measured of this stage."""
    shipped = {length: float(found["shipped"]) for length, found in by_length.items()}
    law = growth(shipped)
    if not _over(shipped, float32):
        verdict = "clean"
    elif law is not None and law.low > 0:
        verdict = "grows with context length"
    else:
        verdict = "above float32, growth not shown"
    return StageVerdict(
        stage=stage,
        shipped=shipped,
        left={length: float(found["left"]) for length, found in by_length.items()},
        against_exact={length: found["against_exact"] for length, found in by_length.items()},
        growth=law,
        verdict=verdict,
    )


def _over(errors: Mapping[int, float], float32: Mapping[int, float]) -> bool:
    return any(error > OVER_FLOAT32 * float32[length] for length, error in errors.items())
