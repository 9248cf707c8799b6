"""Published peak rates of accelerators: dense, without sparsity, at boost clock.

A rate that the vendor does not publish is absent, and whatever would need it says "cannot tell". Sources: data sheets
and architecture white papers of NVIDIA (A100, H100, H200, B200, Ada), AMD (CDNA3); for Ascend the figures that
independent analyses agree on, marked `reported`. Rates of this CPU come from `measure.py`. The transcendental rate is
counted from units per multiprocessor (16 a clock on NVIDIA; a quarter of 64 lanes a clock on CDNA3), times the clock.
Covered: one device. Not covered: links between devices, power limits, what a kernel reaches in practice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TERA = 1e12
GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Peaks of one device. `flop_per_s` by type (bf16, fp8, fp4, int8, tf32, fp32); multiprocessors and their clock."""

    name: str
    memory_bytes: float
    bandwidth_byte_per_s: float
    flop_per_s: Mapping[str, float]
    multiprocessors: int
    clock_hz: float
    architecture: str = ""
    transcendentals_per_clock: int = 16
    source: str = "data sheet"

    @property
    def transcendental_per_s(self) -> float:
        """Exponentials, roots and the like in a second."""
        return self.multiprocessors * self.transcendentals_per_clock * self.clock_hz


TABLE: dict[str, Hardware] = {
    one.name: one
    for one in (
        Hardware(
            name="A100", memory_bytes=80 * GIGA, bandwidth_byte_per_s=2.039 * TERA, architecture="sm_80",
            flop_per_s={"bf16": 312 * TERA, "tf32": 156 * TERA, "fp32": 19.5 * TERA, "int8": 624 * TERA},
            multiprocessors=108, clock_hz=1.41 * GIGA,
        ),
        Hardware(
            name="H100", memory_bytes=80 * GIGA, bandwidth_byte_per_s=3.35 * TERA, architecture="sm_90",
            flop_per_s={"bf16": 989 * TERA, "fp8": 1979 * TERA, "int8": 1979 * TERA, "tf32": 495 * TERA,
                        "fp32": 67 * TERA},
            multiprocessors=132, clock_hz=1.83 * GIGA,
        ),
        Hardware(
            name="H200", memory_bytes=141 * GIGA, bandwidth_byte_per_s=4.8 * TERA, architecture="sm_90",
            flop_per_s={"bf16": 989 * TERA, "fp8": 1979 * TERA, "int8": 1979 * TERA, "tf32": 495 * TERA,
                        "fp32": 67 * TERA},
            multiprocessors=132, clock_hz=1.83 * GIGA,
        ),
        Hardware(
            name="B200", memory_bytes=180 * GIGA, bandwidth_byte_per_s=8.0 * TERA, architecture="sm_100",
            flop_per_s={"bf16": 2250 * TERA, "fp8": 4500 * TERA, "fp4": 9000 * TERA, "tf32": 1125 * TERA,
                        "fp32": 75 * TERA},
            multiprocessors=148, clock_hz=1.85 * GIGA,
        ),
        Hardware(
            name="RTX4090", memory_bytes=24 * GIGA, bandwidth_byte_per_s=1.008 * TERA, architecture="sm_89",
            flop_per_s={"bf16": 165 * TERA, "fp8": 330 * TERA, "int8": 661 * TERA, "tf32": 82.6 * TERA,
                        "fp32": 82.6 * TERA},
            multiprocessors=128, clock_hz=2.52 * GIGA,
        ),
        Hardware(
            name="MI300X", memory_bytes=192 * GIGA, bandwidth_byte_per_s=5.3 * TERA, architecture="gfx942",
            flop_per_s={"bf16": 1307 * TERA, "fp8": 2615 * TERA, "int8": 2615 * TERA, "tf32": 654 * TERA,
                        "fp32": 163 * TERA},
            multiprocessors=304, clock_hz=2.1 * GIGA,
        ),
        Hardware(
            name="Ascend910B", memory_bytes=64 * GIGA, bandwidth_byte_per_s=1.6 * TERA,
            flop_per_s={"bf16": 320 * TERA, "int8": 640 * TERA}, multiprocessors=20, clock_hz=1.8 * GIGA,
            transcendentals_per_clock=0, source="reported, not a data sheet; variants differ",
        ),
        Hardware(
            name="Ascend910C", memory_bytes=128 * GIGA, bandwidth_byte_per_s=3.2 * TERA,
            flop_per_s={"bf16": 780 * TERA}, multiprocessors=40, clock_hz=1.8 * GIGA,
            transcendentals_per_clock=0, source="reported, not a data sheet",
        ),
    )
}  # fmt: skip


def hardware(name: str) -> Hardware:
    """The entry of this name, whatever its case; KeyError lists the names."""
    wanted = name.replace(" ", "").replace("-", "").lower()
    for known, entry in TABLE.items():
        if wanted in (known.lower(), known.lower().removeprefix("rtx")):
            return entry
    raise KeyError(f"no hardware {name!r}; known: {', '.join(TABLE)}, cpu (measured here)")
