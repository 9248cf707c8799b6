"""What merging the value tiles can gain, per regime, from counted and computed work. No time is measured here.

Two regimes. *Plain*: each program reads and writes its part of the float32 state. *Replay* (ReplaySSM): the state is
read only; a ring of the last `RING` gates and keys is reloaded and re-exponentiated by every value tile.
The upper end takes all repeated bytes as memory traffic; the lower end takes them as hits in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probes.capacity.roofline.bound import Work, limit
from probes.capacity.roofline.hardware import Hardware

RING = 16
LEAST_GAIN = 0.02
"""A gain below two per cent is not proved by any bench of a kernel of microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Work of one head per step: what every tile repeats, and what is done once whatever the tiling."""

    name: str
    repeated: Work
    once: Work

    def whole(self, tiles: int, *, cached: bool = False) -> Work:
        """All the work with so many tiles; `cached`: repeated bytes cost no memory traffic."""
        repeated = self.repeated.times(tiles)
        if cached:
            repeated = Work(bytes=self.repeated.bytes, flop=repeated.flop, transcendentals=repeated.transcendentals)
        return self.once + repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted gain on one device: from (all repeated bytes cached) to (none), what binds, and the ceilings."""

    regime: str
    hardware: str
    binding: str
    low: float
    high: float
    redundant_share: float
    transcendental_ceiling: float
    unknown: tuple[str, ...]

    @property
    def worth_it(self) -> bool:
        """Whether the redundant share of the binding resource is large enough to be seen."""
        return self.high - 1 >= LEAST_GAIN


def replay(key_dim: int, value_dim: int) -> Regime:
    """The replay regime of one head, by formula (bf16 operands and keys, float32 gates and state)."""
    ring = RING * key_dim
    shared_bytes = ring * 4.0 + ring * 2.0 + 1280.0 * key_dim / 128
    return Regime(
        name="replay",
        repeated=Work(bytes=shared_bytes, flop={"fp32": 4.0 * ring}, transcendentals=ring + 3.0 * key_dim),
        once=Work(
            bytes=4.0 * key_dim * value_dim + 2.0 * (RING + 2) * value_dim,
            flop={"fp32": 2.0 * key_dim * value_dim + 2.0 * RING * value_dim},
        ),
    )


def predict(regime: Regime, device: Hardware, tiles: int) -> Prediction:
    """The gain of going from `tiles` tiles to one."""
    before, after = limit(regime.whole(tiles), device), limit(regime.whole(1), device)
    cached = limit(regime.whole(tiles, cached=True), device)
    whole, single = regime.whole(tiles), regime.whole(1)
    binding = before.binding
    amounts = {"memory": (whole.bytes, single.bytes), "transcendental": (whole.transcendentals, single.transcendentals)}
    more, less = amounts.get(binding, (whole.flops, single.flops))
    return Prediction(
        regime=regime.name, hardware=device.name, binding=binding, low=cached.least_s / after.least_s,
        high=before.least_s / after.least_s, redundant_share=1 - less / more,
        transcendental_ceiling=whole.transcendentals / single.transcendentals, unknown=before.unknown,
    )  # fmt: skip


def lines(found: Sequence[Prediction]) -> list[str]:
    """The predictions as a table."""
    rows = [f"  {'regime':<9}{'device':<11}{'binds':<15}{'repeated share':>15}{'predicted':>16}{'if exp binds':>14}"]
    for one in found:
        span = f"x{one.low:.2f} to x{one.high:.2f}"
        note = f"  cannot tell for {', '.join(one.unknown)}" if one.unknown else ""
        rows.append(
            f"  {one.regime:<9}{one.hardware:<11}{one.binding:<15}{one.redundant_share:>15.1%}{span:>16}"
            f"{one.transcendental_ceiling:>13.1f}x{note}"
        )
    return rows
