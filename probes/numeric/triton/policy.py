"""Which arithmetic a float32 `tl.dot` gets: what the kernel asked for, on a unit of this kind, with single exceptions.

Covered: honouring what was asked, forcing one arithmetic everywhere, and overriding named call sites.
Not covered: dots of other types than float32; their factors are read exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from probes.numeric.triton.arithmetic import Arithmetic
from probes.numeric.triton.sites import Site

_ASKED = {
    "ieee": Arithmetic.IEEE,
    "tf32x3": Arithmetic.TF32X3,
    "bf16x3": Arithmetic.BF16X3,
    "bf16x6": Arithmetic.BF16X6,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`tf32` is what the unit makes of plain tf32; `force`, if given, replaces whatever was asked.

    `without_units`: the device computes in full float32 whatever is asked. `overrides` come before everything else.
    """

    tf32: Arithmetic = Arithmetic.TF32_TRUNCATED
    without_units: bool = False
    force: Arithmetic | None = None
    overrides: Mapping[Site, Arithmetic] = field(default_factory=dict)

    def arithmetic(self, precision: str, site: Site) -> Arithmetic:
        """The arithmetic for this site, for which Triton chose `precision` (its own word, in small letters)."""
        if site in self.overrides:
            return self.overrides[site]
        if self.force is not None:
            return self.force
        if self.without_units:
            return Arithmetic.IEEE
        if precision == "tf32":
            return self.tf32
        if precision not in _ASKED:
            raise ValueError(f"no arithmetic is known for input_precision {precision!r}")
        return _ASKED[precision]

    def overriding(self, overrides: Mapping[Site, Arithmetic]) -> Policy:
        """The same policy with these exceptions added."""
        return replace(self, overrides={**self.overrides, **overrides})
