"""How the judge's error is shared out over the looks: the level of each, so that all together keep what is promised.

A rule that looks five times at 5 % each is wrong far more often than 5 % of the time. Here the error spent up to a look
is a fixed function of the share of blocks measured, 4.25 % x (blocks / 16) ^ 1.5: little early, when few launches can
agree by luck, most of it late; what is missing to 5 % is kept back for all that the normal law leaves out. The level of
a look makes the chance of crossing *there for the first time* what is newly spent, given all earlier looks (Lan and
DeMets 1983). Looks share their blocks, so that chance is computed on the joint law of partial sums (Armitage, McPherson
and Rowe 1969), and rounded down to a level that the exact Wilcoxon test can reach.

Covered: the table of levels, its derivation, and the p-value of a whole sequence of looks.
Not covered: the tests themselves (`estimate`), and several candidates (`claims`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy import optimize, stats

from infra_agent.judge.estimate import FloatArray, attainable_level
from infra_agent.judge.plan import LOOKS

ALPHA = 0.0425
"""Error of all looks together, two-sided."""
EXPONENT = 1.5
"""Of the spending function: 1 spends evenly, 3 hardly anything early."""
RANK_FROM = 9
"""First look whose share the exact Wilcoxon test can reach; before it Student's t is used."""

SPENDING: Mapping[int, float] = MappingProxyType(
    {3: 0.0034, 6: 0.0073, 9: 4 / 512, 12: 66 / 4096, 16: 1636 / 65536},
)
"""Two-sided level of each look, as `derive_levels` gives them."""

_CELLS = 1200
_HIGHEST_BOUND = 8.0


def spent(blocks: int) -> float:
    """Error that may be spent up to this many blocks."""
    return float(ALPHA * (blocks / LOOKS[-1]) ** EXPONENT)


def overall_p(p: float, look: int) -> float:
    """A p-value of the whole sequence that ended at this look with this p: what earlier looks could spend is added.

    An upper bound of P(an earlier look decides, or this one with at most this p).
    """
    return min(1.0, sum(level for blocks, level in SPENDING.items() if blocks < look) + p)


def derive_levels() -> dict[int, float]:
    """The level of each look, from the spending function."""
    levels: dict[int, float] = {}
    undecided, used, before = _Undecided(points=np.zeros(1), masses=np.ones(1)), 0.0, 0
    for look in LOOKS:
        walk = math.sqrt(look - before)
        bound = undecided.bound_for(spent(look) - used, walk)
        levels[look] = _reachable(look, 2 * float(stats.norm.sf(bound / math.sqrt(look))))
        bound = float(stats.norm.isf(levels[look] / 2)) * math.sqrt(look)
        used += undecided.beyond(bound, walk)
        undecided, before = undecided.after(bound, walk), look
    return levels


def _reachable(look: int, level: float) -> float:
    """Rounded down: to a level of the exact test, or to four decimals where Student's t is used."""
    return attainable_level(look, level) if look >= RANK_FROM else math.floor(level * 1e4) / 1e4


@dataclass(frozen=True, slots=True)
class _Undecided:
    """Where the sum of block log-ratios may be, in standard deviations of one, if no look has decided yet."""

    points: FloatArray
    masses: FloatArray

    def beyond(self, bound: float, walk: float) -> float:
        """Chance that it lies beyond the bound after a further walk of this standard deviation."""
        outside = stats.norm.sf((bound - self.points) / walk) + stats.norm.cdf((-bound - self.points) / walk)
        return float((self.masses * outside).sum())

    def bound_for(self, chance: float, walk: float) -> float:
        """The bound with that chance."""
        highest = _HIGHEST_BOUND * math.sqrt(walk**2 + float(np.abs(self.points).max()) ** 2)
        return float(optimize.brentq(lambda bound: self.beyond(bound, walk) - chance, 0.0, highest))

    def after(self, bound: float, walk: float) -> _Undecided:
        """What is left within the bound after the walk, as masses at the middle of equal cells."""
        edges = np.linspace(-bound, bound, _CELLS + 1)
        chances = np.diff(stats.norm.cdf((edges[None, :] - self.points[:, None]) / walk), axis=1)
        return _Undecided(points=(edges[:-1] + edges[1:]) / 2, masses=self.masses @ chances)
