"""From a suspicion to a cause: the arithmetic of one call site changed at a time, everything else held.

For each site three runs decide: all products exact; only this site as shipped; all as shipped, only this site exact.
The first two give the error that the site causes alone, the last what putting it back undoes.

Covered: every float32 `tl.dot` that a run passes; sites whose shipped arithmetic is exact already are left out.
Not covered: sites that do harm only together (`left` shows them: the error that stays when all culprits are exact).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.numeric.triton.arithmetic import Arithmetic
from probes.numeric.triton.policy import Policy
from probes.numeric.triton.sites import DotLog, Site

Array = npt.NDArray[Any]
Run = Callable[[Policy], tuple[Array, DotLog]]
"""The kernels under a policy: what they computed, and the dots on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEffect:
    """`alone`: relative error with only this site as shipped. `without`: with all as shipped but this site exact.

    Both against the run in which every float32 product is exact.
    """

    site: Site
    function: str
    kernels: tuple[str, ...]
    asked: str
    arithmetic: Arithmetic
    alone: float
    without: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All sites of one run. `shipped`: the error of everything as shipped; `exact` and `computed` are the results."""

    effects: tuple[SiteEffect, ...]
    shipped: float
    exact: Array
    computed: Array


def sweep(run: Run, shipped: Policy) -> Sweep:
    """Change one site at a time. `shipped` is the policy under which the kernels really run."""
    exact_policy = Policy(force=Arithmetic.IEEE)
    exact, _ = run(exact_policy)
    computed, log = run(shipped)

    def error(policy: Policy) -> float:
        return relative_error(run(policy)[0], exact)

    effects = []
    for site, arithmetic in _suspects(log).items():
        dots = log.at(site)
        effects.append(
            SiteEffect(
                site=site,
                function=dots[0].function,
                kernels=tuple(sorted({dot.kernel for dot in dots})),
                asked=dots[0].asked,
                arithmetic=arithmetic,
                alone=error(exact_policy.overriding({site: arithmetic})),
                without=error(shipped.overriding({site: Arithmetic.IEEE})),
            )
        )
    return Sweep(effects=tuple(effects), shipped=relative_error(computed, exact), exact=exact, computed=computed)


def error_left(run: Run, shipped: Policy, culprits: Iterable[Site], exact: Array) -> float:
    """The error of everything as shipped, with these sites exact: it must be gone if they are the cause."""
    return relative_error(run(shipped.overriding(dict.fromkeys(culprits, Arithmetic.IEEE)))[0], exact)


def relative_error(found: Array, expected: Array) -> float:
    """Frobenius norm of the difference by that of what was expected; infinite when something is not a number."""
    found64, expected64 = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if found64.shape != expected64.shape:
        raise ValueError(f"results differ in shape: {found64.shape} and {expected64.shape}")
    norm = float(np.linalg.norm(expected64))
    distance = float(np.linalg.norm(found64 - expected64))
    if not np.isfinite(distance):
        return float("inf")
    return distance / norm if norm else (0.0 if distance == 0 else float("inf"))


def _suspects(log: DotLog) -> Mapping[Site, Arithmetic]:
    found = {dot.site: Arithmetic(dot.arithmetic) for dot in log.counts if dot.is_float32}
    return {site: found[site] for site in sorted(found) if found[site] is not Arithmetic.IEEE}
