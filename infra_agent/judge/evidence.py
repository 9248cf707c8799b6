"""All that the judge is given of one candidate, and the look at it: gain, stalls and constraints on the same blocks.

Covered: which figures are compared, non-inferiority on constrained metrics, the look that puts them together.
Not covered: what makes a block valid (`harness`), and several candidates (`claims`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from infra_agent.judge.decide import DEFAULT_THRESHOLD, MAX_BLOCKS, decide
from infra_agent.judge.estimate import MIN_BLOCKS, estimate, walsh_averages
from infra_agent.judge.spending import SPENDING
from infra_agent.judge.stalls import net_of_losses, rare, stall_guard
from infra_agent.judge.types import Guard, Look

Basis = Literal["plain", "stall-free"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEvidence:
    """A constraint on the blocks. `beyond`: per block, log of how far the candidate lies beyond it; above 0 breaks it.

    None in place of a value: the constrained figure could not be measured in that block.
    """

    name: str
    beyond: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """What stalls did to one arm's runs, one entry per block: whether there was one, and the log of what it cost."""

    stalled: tuple[bool, ...]
    loss: tuple[float, ...]

    def first(self, count: int) -> Stalls:
        """The first blocks."""
        return Stalls(stalled=self.stalled[:count], loss=self.loss[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Valid blocks of one candidate, oldest first. `plain`: log-ratios oriented so that above 0 is better.

    `stalls`: those of base and candidate; None where they cannot be seen.
    """

    plain: tuple[float, ...]
    stalls: tuple[Stalls, Stalls] | None = None
    limits: tuple[LimitEvidence, ...] = ()

    @property
    def basis(self) -> Basis:
        """Which figures are compared."""
        if self.stalls is None:
            return "plain"
        base, candidate = (np.asarray([arm.stalled], dtype=np.bool_) for arm in self.stalls)
        return "stall-free" if rare(base, candidate)[0] else "plain"

    @property
    def stall_free(self) -> tuple[float, ...]:
        """The log-ratios without what stalls cost."""
        if self.stalls is None:
            return self.plain
        base, candidate = self.stalls
        return tuple(p + c - b for p, b, c in zip(self.plain, base.loss, candidate.loss, strict=True))

    @property
    def log_ratios(self) -> tuple[float, ...]:
        """The log-ratios that are compared."""
        return self.stall_free if self.basis == "stall-free" else self.plain

    def first(self, count: int) -> Evidence:
        """The evidence as it was after `count` blocks."""
        return Evidence(
            plain=self.plain[:count],
            stalls=None if self.stalls is None else (self.stalls[0].first(count), self.stalls[1].first(count)),
            limits=tuple(LimitEvidence(name=each.name, beyond=each.beyond[:count]) for each in self.limits),
        )


def look_at(evidence: Evidence, threshold: float = DEFAULT_THRESHOLD, max_blocks: int = MAX_BLOCKS) -> Look:
    """The look at all these blocks. ValueError when their number is no planned look."""
    blocks = len(evidence.plain)
    guards = guards_of(evidence, SPENDING[blocks]) if blocks in SPENDING else ()
    return decide(evidence.log_ratios, blocks, threshold, max_blocks, guards)


def guards_of(evidence: Evidence, alpha: float) -> tuple[Guard, ...]:
    """What must hold beside a gain: constraints, no more stalls, and a gain that outweighs what stalls cost."""
    limits = tuple(limit_guard(limit, alpha) for limit in evidence.limits)
    if evidence.stalls is None:
        return limits
    base, candidate = evidence.stalls
    return (*limits, stall_guard(base.stalled, candidate.stalled), _net_guard(evidence, base, candidate))


def limit_guard(limit: LimitEvidence, alpha: float) -> Guard:
    """Non-inferiority: a constraint holds when the interval of `beyond` lies below 0; broken when it lies above."""
    known = [value for value in limit.beyond if value is not None]
    if len(known) < len(limit.beyond) or len(known) < MIN_BLOCKS:
        reason = f"{limit.name} could not be measured in every block, so it is not shown to hold"
        return Guard(name=limit.name, state="open", reason=reason, cause="infeasible")
    found = estimate(known, alpha)
    seen = f"{limit.name}: x{found.ratio:.3g} [{found.low:.3g}, {found.high:.3g}] of what is allowed"
    if found.low > 1:
        return Guard(name=limit.name, state="broken", reason=f"{seen}: broken", cause="infeasible", p=found.p)
    if found.high <= 1:
        return Guard(name=limit.name, state="holds", reason=f"{seen}: holds", cause="infeasible", p=found.p)
    return Guard(name=limit.name, state="open", reason=f"{seen}: not shown to hold", cause="infeasible", p=found.p)


def _net_guard(evidence: Evidence, base: Stalls, candidate: Stalls) -> Guard:
    stall_free, base_loss, candidate_loss = (
        np.asarray([values], dtype=np.float64) for values in (evidence.stall_free, base.loss, candidate.loss)
    )
    gain = np.median(walsh_averages(stall_free), axis=1)
    net = float(net_of_losses(gain, base_loss, candidate_loss)[0])
    state: Literal["holds", "open"] = "holds" if net >= 0 else "open"
    reason = f"with what stalls cost on average it comes to x{math.exp(net):.4g}"
    return Guard(name="gain net of stalls", state=state, reason=reason, cause="unclear")
