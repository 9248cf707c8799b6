"""Work against hardware: seconds each resource needs at its peak, which one binds, and what a change can gain at most.

Covered: memory, arithmetic by type, transcendentals; distance of a measured time to the limit; Amdahl's bound and the
rule that a change below the noise floor is not tried. Not covered: latency, launch overhead, caches: real times are
longer than these limits, never shorter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.capacity.roofline.hardware import Hardware

MEMORY = "memory"
TRANSCENDENTAL = "transcendental"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done: bytes to and from memory, operations by type, transcendentals."""

    bytes: float
    flop: Mapping[str, float] = field(default_factory=dict)
    transcendentals: float = 0.0

    def __add__(self, other: Work) -> Work:
        kinds = {*self.flop, *other.flop}
        return Work(
            bytes=self.bytes + other.bytes, transcendentals=self.transcendentals + other.transcendentals,
            flop={kind: self.flop.get(kind, 0.0) + other.flop.get(kind, 0.0) for kind in sorted(kinds)},
        )  # fmt: skip

    def times(self, factor: float) -> Work:
        """The work done `factor` times."""
        return Work(
            bytes=self.bytes * factor, transcendentals=self.transcendentals * factor,
            flop={kind: count * factor for kind, count in self.flop.items()},
        )  # fmt: skip

    @property
    def flops(self) -> float:
        """All arithmetic together."""
        return sum(self.flop.values())

    @property
    def intensity_flop_per_byte(self) -> float:
        """Arithmetic for every byte moved."""
        return self.flops / self.bytes if self.bytes else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The least time a device needs. `seconds` by resource; `unknown` are resources without a published rate."""

    hardware: str
    seconds: Mapping[str, float]
    unknown: tuple[str, ...]

    @property
    def binding(self) -> str:
        """The resource that needs longest."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def least_s(self) -> float:
        """Time of the binding resource."""
        return max(self.seconds.values())

    def reached(self, measured_s: float) -> float:
        """Share of the limit that a measured time reaches: 1 is the roof."""
        return self.least_s / measured_s


def limit(work: Work, device: Hardware) -> Limit:
    """Least time of this work on this device."""
    seconds = {MEMORY: work.bytes / device.bandwidth_byte_per_s}
    unknown = []
    for kind, count in work.flop.items():
        if count and kind in device.flop_per_s:
            seconds[kind] = count / device.flop_per_s[kind]
        elif count:
            unknown.append(kind)
    if work.transcendentals and device.transcendentals_per_clock:
        seconds[TRANSCENDENTAL] = work.transcendentals / device.transcendental_per_s
    elif work.transcendentals:
        unknown.append(TRANSCENDENTAL)
    return Limit(hardware=device.name, seconds=seconds, unknown=tuple(unknown))


def amdahl(share: float, factor: float = float("inf")) -> float:
    """Most that the whole gains when a part of it (share of its time) becomes `factor` times as fast."""
    if not 0 <= share <= 1 or factor <= 0:
        raise ValueError(f"a share lies in 0..1 and a factor above 0, not {share} and {factor}")
    left = 1 - share + share / factor
    return 1 / left if left else float("inf")


def worth_trying(share: float, factor: float, noise_floor: float) -> tuple[bool, str]:
    """Whether a change can be seen at all, and the sentence for the report. `noise_floor`: smallest provable gain."""
    most = amdahl(share, factor)
    whole = f"{share:.1%} of the step: at most {most:.3f}x"
    if most - 1 < noise_floor:
        return False, f"not tried: {whole}, below the noise floor of {noise_floor:.1%}"
    return True, whole
