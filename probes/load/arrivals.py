"""When requests arrive: what the user asks for. The moments themselves are drawn in `schedule`.

Covered: a closed loop; constant, Poisson, gamma and ramped arrivals; a recorded trace. Not covered: think times (a
slower server would get less load, and look better for it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

RampShape = Literal["linear", "exponential"]


@dataclass(frozen=True, slots=True)
class Closed:
    """`concurrency` users, each of whom sends the next request as soon as the last one was answered."""

    concurrency: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {self.concurrency}")


@dataclass(frozen=True, slots=True)
class Constant:
    """Evenly spaced arrivals, whatever the server does."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _positive("rate_per_s", self.rate_per_s)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent arrivals at a mean rate, whatever the server does."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _positive("rate_per_s", self.rate_per_s)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma-distributed gaps of the given shape: below 1 in bursts, 1 is Poisson, above 1 more even."""

    rate_per_s: float
    shape: float

    def __post_init__(self) -> None:
        _positive("rate_per_s", self.rate_per_s)
        _positive("shape", self.shape)


@dataclass(frozen=True, slots=True)
class Ramp:
    """Poisson arrivals whose rate goes from `start_per_s` to `end_per_s` over `over_s` seconds and stays there."""

    start_per_s: float
    end_per_s: float
    over_s: float
    shape: RampShape = "linear"

    def __post_init__(self) -> None:
        _positive("start_per_s", self.start_per_s)
        _positive("end_per_s", self.end_per_s)
        _positive("over_s", self.over_s)


@dataclass(frozen=True, slots=True)
class Trace:
    """Recorded arrivals, in seconds after the first; `name` says where they come from."""

    times_s: tuple[float, ...] = field(repr=False)
    name: str = "trace"

    def __post_init__(self) -> None:
        if not self.times_s:
            raise ValueError("a trace needs at least one arrival")
        if not all(math.isfinite(time) and time >= 0 for time in self.times_s):
            raise ValueError("arrivals of a trace are finite and not negative")
        if any(later < earlier for earlier, later in zip(self.times_s, self.times_s[1:], strict=False)):
            raise ValueError("arrivals of a trace are in order of time")


Open = Constant | Poisson | Gamma | Ramp | Trace
Arrivals = Closed | Open


def describe(arrivals: Arrivals) -> str:
    """One line for people, and a stable name for digests."""
    match arrivals:
        case Closed(concurrency):
            return f"closed loop of {concurrency}"
        case Constant(rate):
            return f"constant {rate:g}/s"
        case Poisson(rate):
            return f"Poisson {rate:g}/s"
        case Gamma(rate, shape):
            return f"gamma {rate:g}/s, shape {shape:g}"
        case Ramp(start, end, over, shape):
            return f"{shape} ramp {start:g}/s to {end:g}/s over {over:g} s"
        case Trace(times, name):
            return f"{name}, {len(times)} arrivals in {times[-1]:g} s"


def mean_rate_per_s(arrivals: Arrivals) -> float | None:
    """The asked rate, where one figure says it; None for a closed loop, a ramp or a trace."""
    return arrivals.rate_per_s if isinstance(arrivals, Constant | Poisson | Gamma) else None


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, not {value}")
