"""Figures that do not vary: a ratio without chance in it, and what follows from it.

Two blocks on one seed that agree to the last bit leave nothing to estimate. Over several seeds, the interval of the
estimate is the range of the ratios: an exact figure may still depend on its inputs, so one more seed is looked at.

Covered: decision, constraints. Not covered: whether the figures are exact (`harness.experiment.exact`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from infra_agent.judge.evidence import Evidence, LimitEvidence
from infra_agent.judge.screen import Outcome
from infra_agent.judge.types import Cause, Decision, Estimate, Guard, Look

EXACT_REPEATS = 2
EXACT_BLOCKS = EXACT_REPEATS + 1
"""Blocks of a proof: the repeats on one seed, and one on another."""
METHOD = "exact: deterministic figures, repeated and equal; the interval is the range over the seeds"


def exact_estimate(log_ratios: Sequence[float]) -> Estimate:
    """The median ratio and the range of all. ValueError without a value, or for one that is not finite."""
    if not log_ratios or not all(math.isfinite(value) for value in log_ratios):
        raise ValueError("exact ratios are finite, and there is at least one")
    ordered = sorted(log_ratios)
    middle = len(ordered) // 2
    centre = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    low, high = math.exp(ordered[0]), math.exp(ordered[-1])
    return Estimate(
        ratio=min(max(math.exp(centre), low), high), low=low, high=high, p=None, n=len(ordered), confidence=1.0,
        method=METHOD,
    )  # fmt: skip


def exact_look(evidence: Evidence, threshold: float) -> Look:
    """The decision on exact figures; inconclusive only where they depend on the inputs."""
    found = exact_estimate(evidence.plain)
    guards = tuple(exact_guard(limit) for limit in evidence.limits)
    seen = f"x{found.ratio:.4g} [{found.low:.4g}, {found.high:.4g}], exact figures over {found.n} blocks"
    bad = next((guard for guard in guards if guard.state != "holds"), None)
    decision, cause, reason = _decided(found, threshold, seen)
    if decision is Decision.ACCEPTED and bad is not None:
        decision, cause, reason = Decision.REJECTED, bad.cause, f"{seen}, but {bad.reason}"
    return Look(
        blocks=found.n, alpha=1.0, estimate=found, decision=decision, cause=cause, reason=reason, guards=guards
    )  # fmt: skip


def screen_exact(gain_log: float, threshold: float = 0.01) -> tuple[Estimate, Outcome, str]:
    """One run of a candidate beside one of the base on the same seed. It claims nothing: it was not repeated."""
    found = exact_estimate([gain_log])
    seen = f"one run x{found.ratio:.4g} on the base's seed"
    if found.ratio >= 1 + threshold:
        return found, "promote", f"{seen}: worth proving"
    return (
        found,
        "reject",
        f"{seen}: {'worse than the base' if found.ratio < 1 else f'no gain of {100 * threshold:g} %'}",
    )


def exact_guard(limit: LimitEvidence) -> Guard:
    """A constraint holds when it holds in every block."""
    known = [value for value in limit.beyond if value is not None]
    if len(known) < len(limit.beyond) or not known:
        reason = f"{limit.name} could not be measured in every block, so it is not shown to hold"
        return Guard(name=limit.name, state="open", reason=reason, cause="infeasible")
    worst = math.exp(max(known))
    state = "holds" if max(known) <= 0 else "broken"
    reason = f"{limit.name}: x{worst:.4g} of what is allowed: {state}"
    return Guard(name=limit.name, state="holds" if state == "holds" else "broken", reason=reason, cause="infeasible")


def _decided(found: Estimate, threshold: float, seen: str) -> tuple[Decision, Cause, str]:
    if found.high < 1:
        return Decision.REJECTED, "slower", f"{seen}: worse than the base"
    if found.low < 1 and found.high >= 1 + threshold:
        return Decision.INCONCLUSIVE, "unclear", f"{seen}: better on some inputs, worse on others"
    if found.ratio >= 1 + threshold:
        return Decision.ACCEPTED, "proved", f"{seen}: better than the base, and by at least {100 * threshold:g} %"
    return Decision.REJECTED, "no_gain", f"{seen}: no gain of {100 * threshold:g} %"
