"""Three-way decisions at planned looks: accepted, rejected, inconclusive, or go on measuring.

*accepted*: the interval lies above 1, the estimate reaches 1 + threshold, and every guard holds. *rejected*: the
interval lies below 1 (slower) or below 1 + threshold (no gain that matters), or a guard is broken. At the last look
whatever is left is *inconclusive*.

The error of being wrong is shared out over the looks (`spending`). At 3 and 6 blocks the exact Wilcoxon test cannot
reach its share (0.25 and 0.031 are its lowest p), so Student's t is used there; from 9 on the exact test is. The
interval of a look has the coverage 1 - its share, wider than 95 %, because other looks are taken too. Simulated error
over all looks together when nothing changed: below 2.5 % for "accepted" and for "slower" alike (`docs/judge.md`).

Covered: one candidate against one base, valid blocks only.
Not covered: what makes a block valid, which figures a block compares (`evidence`), and the correction for many
candidates (`claims`; the winner is measured again on fresh seeds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from infra_agent.judge.estimate import FloatArray, estimate, sd_floor, t_quantile
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.spending import SPENDING
from infra_agent.judge.types import Cause, Decision, Estimate, Guard, Look

DEFAULT_THRESHOLD = 0.01
MAX_BLOCKS = LOOKS[-1]

GO_ON, BETTER, SLOWER, NO_GAIN = 0, 1, -1, -2
Decided = tuple[Decision | None, Cause | None, str]


def decide(
    log_ratios: Sequence[float],
    blocks_done: int,
    threshold: float = DEFAULT_THRESHOLD,
    max_blocks: int = MAX_BLOCKS,
    guards: Sequence[Guard] = (),
) -> Look:
    """The look at `blocks_done` valid blocks. `decision` is None while another look is due.

    Raises ValueError when this is not a planned look, when the count and the data disagree, or for a bad value.
    """
    if blocks_done not in SPENDING or blocks_done > max_blocks:
        raise ValueError(f"{blocks_done} blocks is no planned look; the looks are {_names(max_blocks)}")
    if len(log_ratios) != blocks_done:
        raise ValueError(f"{len(log_ratios)} log-ratios do not belong to {blocks_done} blocks")
    if not 0.0 <= threshold < 1.0:
        raise ValueError(f"the practical threshold lies between 0 and 1, not {threshold}")
    alpha = SPENDING[blocks_done]
    found = estimate(log_ratios, alpha)
    code = int(classify(np.array([found.ratio]), np.array([found.low]), np.array([found.high]), threshold)[0])
    upcoming = next_look(blocks_done, max_blocks)
    decision, why, reason = _guarded(code, guards, _seen(found), upcoming) or _words(code, found, threshold, upcoming)
    return Look(
        blocks=blocks_done, alpha=alpha, estimate=found, decision=decision, cause=why, reason=reason,
        guards=tuple(guards),
    )  # fmt: skip


def classify(ratio: FloatArray, low: FloatArray, high: FloatArray, threshold: float) -> NDArray[np.int8]:
    """BETTER, SLOWER, NO_GAIN or GO_ON for each estimate: the whole rule, for one candidate or for many."""
    better = (low > 1.0) & (ratio >= 1.0 + threshold)
    codes = np.where(high < 1.0, SLOWER, np.where(high < 1.0 + threshold, NO_GAIN, GO_ON))
    return np.where(better & (codes == GO_ON), BETTER, codes).astype(np.int8)


def next_look(blocks_done: int, max_blocks: int = MAX_BLOCKS) -> int | None:
    """The next planned look above `blocks_done`, or None when there is none within `max_blocks`."""
    return next((look for look in LOOKS if blocks_done < look <= max_blocks), None)


def goal_reached(estimate: Estimate, target_ratio: float) -> Literal["met", "not_met", "undecided"]:
    """Whether the whole interval lies at or above the target, below it, or neither."""
    if not (math.isfinite(target_ratio) and target_ratio > 0):
        raise ValueError(f"a target ratio is above 0, not {target_ratio}")
    if estimate.low >= target_ratio:
        return "met"
    return "not_met" if estimate.high < target_ratio else "undecided"


def provable_ratio(sd_log: float, look: int, threshold: float = DEFAULT_THRESHOLD, power: float = 0.8) -> float:
    """The smallest true gain that the judge accepts at this look with this power, on blocks that vary by `sd_log`."""
    if not (math.isfinite(sd_log) and sd_log >= 0):
        raise ValueError(f"a standard deviation is at least 0, not {sd_log}")
    half = t_quantile(1 - SPENDING[look] / 2, look - 1) * max(sd_log, sd_floor(look)) / math.sqrt(look)
    luck = t_quantile(power, look - 1) * sd_log / math.sqrt(look)
    return math.exp(max(half, math.log1p(threshold)) + luck)


def blocks_needed(
    effect_ratio: float, sd_log: float, threshold: float = DEFAULT_THRESHOLD, power: float = 0.8
) -> int | None:
    """The first look that settles a true `effect_ratio` with this power, or None when none of them does.

    `sd_log` is the standard deviation of a block's log-ratio. An effect above 1 must also clear `threshold`.
    """
    if not (math.isfinite(effect_ratio) and effect_ratio > 0):
        raise ValueError(f"an effect ratio is above 0, not {effect_ratio}")
    effect = math.exp(abs(math.log(effect_ratio)))
    practical = threshold if effect_ratio > 1 else 0.0
    return next((look for look in LOOKS if effect >= provable_ratio(sd_log, look, practical, power)), None)


def _guarded(code: int, guards: Sequence[Guard], seen: str, upcoming: int | None) -> Decided | None:
    """What the guards decide; None when they leave it to the gain. A loss needs no guard to be rejected."""
    if code in (SLOWER, NO_GAIN):
        return None
    broken = next((guard for guard in guards if guard.state == "broken"), None)
    if broken is not None:
        return Decision.REJECTED, broken.cause, f"{seen}, but {broken.reason}"
    left = [guard.reason for guard in guards if guard.state == "open"]
    if code != BETTER or not left:
        return None
    if upcoming is not None:
        return None, None, f"{seen}: better than the base, but {left[0]}; the next look is at {upcoming} blocks"
    return Decision.INCONCLUSIVE, "unclear", f"{seen}: better than the base, but not accepted: {left[0]}"


def _seen(found: Estimate) -> str:
    return f"x{found.ratio:.4g} [{found.low:.4g}, {found.high:.4g}] over {found.n} blocks"


def _words(code: int, found: Estimate, threshold: float, upcoming: int | None) -> Decided:
    seen = _seen(found)
    if code == BETTER:
        return Decision.ACCEPTED, "proved", f"{seen}: better than the base, and by at least {100 * threshold:g} %"
    if code == SLOWER:
        return Decision.REJECTED, "slower", f"{seen}: worse than the base"
    if code == NO_GAIN:
        return Decision.REJECTED, "no_gain", f"{seen}: a gain of {100 * threshold:g} % is ruled out"
    if upcoming is not None:
        return None, None, f"{seen}: not settled; the next look is at {upcoming} blocks"
    text = f"{seen}: not settled at the last look; neither a gain nor its absence is shown"
    return Decision.INCONCLUSIVE, "unclear", text


def _names(max_blocks: int) -> str:
    return ", ".join(str(look) for look in LOOKS if look <= max_blocks) or f"none within {max_blocks}"
