"""`python -m probes.numeric.growth`: does the error grow with a size? A bug under a fixed tolerance shows by its slope.

    python -m probes.numeric.growth --candidate FILE.py:NAME --reference FILE.py:NAME --spec FILE
        --size time=128,256,512,1024 [--repeats 5] [--json]

A line through log(error) over log(size); its interval from resampling the repeats at each size. The same is done for
the reference in the promised precision: a sum in float32 may grow by itself, and what counts is growing faster.

Covered: exponent with a 95 % interval, the verdict in words, *cannot tell* where the data do not carry one.
Not covered: laws other than powers (a curved line is called that and gets no exponent).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from probes.numeric.precision import Array

Tells = Literal["flat", "grows", "shrinks", "cannot tell"]
RESAMPLES = 2000
LEAST_SIZES = 4
LEAST_SPAN = 4.0
WIDEST = 0.6
FLAT = 0.15
_CURVED = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A fitted law: error ~ size ** exponent. `reason` says why it cannot be told, when it cannot."""

    tells: Tells
    exponent: float | None
    low: float | None
    high: float | None
    sizes: tuple[float, ...]
    errors: tuple[float, ...]
    reason: str = ""

    def sentence(self) -> str:
        """For people."""
        if self.exponent is None:
            return f"cannot tell: {self.reason}"
        law = f"error ~ size^{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.tells}: {law}" + (f"; {self.reason}" if self.reason else "")


def fit(samples: Mapping[float, Sequence[float]], *, floor: float = 0.0, seed: int = 0) -> Growth:
    """The law behind several errors at each size. Errors at or below `floor` are rounding and carry no law."""
    sizes = tuple(sorted(samples))
    middle = tuple(float(np.median(samples[size])) for size in sizes)
    reason = _too_little(sizes, samples, middle, floor)
    if reason:
        return _silent(sizes, middle, reason)
    slopes = _resampled(sizes, samples, np.random.default_rng(seed))
    low, exponent, high = (float(value) for value in np.quantile(slopes, (0.025, 0.5, 0.975)))
    if high - low > WIDEST:
        return _silent(sizes, middle, f"the exponent lies anywhere in [{low:.2f}, {high:.2f}]: more repeats or sizes")
    if (bend := _bend(sizes, middle)) > _CURVED:
        return _silent(sizes, middle, f"no power law: a point lies a factor {bend:.1f} off the line")
    tells: Tells = "grows" if low > FLAT else "shrinks" if high < -FLAT else "flat"
    note = "" if tells != "flat" or max(abs(low), abs(high)) <= 2 * FLAT else "a weak slope is not excluded"
    return Growth(
        tells=tells, exponent=exponent, low=low, high=high, sizes=sizes, errors=middle, reason=note
    )  # fmt: skip


def faster(candidate: Growth, reference: Growth) -> bool | None:
    """Whether the candidate's error grows faster than the reference's own; None when it cannot be told."""
    if candidate.low is None or candidate.high is None or reference.low is None or reference.high is None:
        return None
    if candidate.low > reference.high + FLAT / 3:
        return True
    return False if candidate.high < reference.high + FLAT else None


def measure(error_at: Callable[[int, int], float], sizes: Sequence[int], repeats: int) -> dict[float, list[float]]:
    """`error_at(size, repeat)` for every size; sizes in turn, so that a drift of the machine hits all alike."""
    found: dict[float, list[float]] = {float(size): [] for size in sizes}
    for repeat in range(repeats):
        for size in sizes:
            found[float(size)].append(error_at(size, repeat))
    return found


def _too_little(
    sizes: tuple[float, ...], samples: Mapping[float, Sequence[float]], middle: tuple[float, ...], floor: float
) -> str:
    if len(sizes) < LEAST_SIZES:
        return f"{len(sizes)} sizes, at least {LEAST_SIZES} are needed"
    if sizes[0] <= 0 or sizes[-1] / sizes[0] < LEAST_SPAN:
        return f"sizes from {sizes[0]:g} to {sizes[-1]:g} span less than a factor {LEAST_SPAN:g}"
    if not all(math.isfinite(value) for size in sizes for value in samples[size]):
        return "an error is not finite"
    if all(value <= floor for value in middle):
        return f"every error is at the floor of {floor:.1e}"
    low = [f"{size:g}" for size, value in zip(sizes, middle, strict=True) if value <= max(floor, 0.0)]
    return f"the error is at the floor at {', '.join(low)}" if low else ""


def _resampled(sizes: tuple[float, ...], samples: Mapping[float, Sequence[float]], rng: np.random.Generator) -> Array:
    """Slopes of lines through the means of resampled log errors."""
    x = np.log(np.asarray(sizes))
    x = x - x.mean()
    columns = []
    for size in sizes:
        logs = np.log(np.maximum(np.asarray(samples[size], dtype=np.float64), np.finfo(np.float64).tiny))
        columns.append(logs[rng.integers(0, len(logs), (RESAMPLES, len(logs)))].mean(axis=1))
    y = np.stack(columns, axis=1)
    found: Array = (y * x).sum(axis=1) / (x * x).sum()
    return found


def _bend(sizes: tuple[float, ...], middle: tuple[float, ...]) -> float:
    """The largest factor between a point and the line."""
    x, y = np.log(sizes), np.log(middle)
    slope, start = np.polyfit(x, y, 1)
    return float(np.exp(np.abs(y - slope * x - start).max()))


def _silent(sizes: tuple[float, ...], errors: tuple[float, ...], reason: str) -> Growth:
    return Growth(tells="cannot tell", exponent=None, low=None, high=None, sizes=sizes, errors=errors, reason=reason)


if __name__ == "__main__":
    import sys

    from probes.numeric.judge.sweep import main

    sys.exit(main())
