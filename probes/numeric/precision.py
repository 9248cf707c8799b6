"""Number formats: what each can hold, how a value is rounded into it, and how it lies in a file.

Covered: float64, float32, TF32, bfloat16, float16, the integers and bool; rounding to nearest even, overflow to
infinity, subnormals; distance in units in the last place.
Not covered: 8-bit and 4-bit floats with block scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A binary floating-point format. `digits` counts the significand's bits, the hidden one included."""

    name: str
    digits: int
    lowest_exponent: int
    largest: float

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding."""
        return 2.0**-self.digits

    @property
    def smallest_normal(self) -> float:
        """Below this the format loses digits, and hardware may flush to zero."""
        return float(2.0**self.lowest_exponent)


FORMATS = {
    "float64": Format(name="float64", digits=53, lowest_exponent=-1022, largest=float(np.finfo(np.float64).max)),
    "float32": Format(name="float32", digits=24, lowest_exponent=-126, largest=float(np.finfo(np.float32).max)),
    "tf32": Format(name="tf32", digits=11, lowest_exponent=-126, largest=float(np.finfo(np.float32).max)),
    "float16": Format(name="float16", digits=11, lowest_exponent=-14, largest=65504.0),
    "bfloat16": Format(name="bfloat16", digits=8, lowest_exponent=-126, largest=float(2.0**127 * (2 - 2.0**-7))),
}
STORED: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"), "float32": np.dtype("<f4"), "float16": np.dtype("<f2"), "bfloat16": np.dtype("<u2"),
    "int64": np.dtype("<i8"), "int32": np.dtype("<i4"), "int8": np.dtype("i1"), "uint8": np.dtype("u1"),
    "bool": np.dtype("?"),
}  # fmt: skip
"""How each dtype of a tensor lies in memory and in a file; numpy has no bfloat16, so its bits stand in a uint16."""


def is_float(dtype: str) -> bool:
    """Whether values of this dtype have a rounding error."""
    return dtype in FORMATS


def accumulator(dtype: str) -> Format:
    """The format in which sums are kept when values have this dtype: float32 unless it is wider."""
    return FORMATS["float64" if dtype == "float64" else "float32"]


def rounded(values: Array, dtype: str) -> Array:
    """The nearest values that the format can hold, as float64."""
    exact = np.asarray(values, dtype=np.float64)
    if dtype == "float64":
        return exact.copy()
    kind = FORMATS[dtype]
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(exact)
        step = np.maximum(exponent - kind.digits, kind.lowest_exponent - kind.digits + 1)
        near = np.ldexp(np.rint(np.ldexp(exact, -step)), step)
        near = np.where(np.abs(near) > kind.largest, np.copysign(np.inf, exact), near)
    return np.where(np.isfinite(exact), near, exact)


def stored(values: Array, dtype: str) -> Array:
    """The values as they lie in a file of this dtype."""
    if dtype == "bfloat16":
        bits: Array = rounded(values, dtype).astype("<f4").view("<u4")
        return (bits >> 16).astype("<u2")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values).astype(STORED[dtype])


def read(values: Array, dtype: str) -> Array:
    """What stands in a file of this dtype, as float64 or int64 (bool as 0 and 1)."""
    if dtype == "bfloat16":
        wide: Array = (values.astype("<u4") << 16).view("<f4")
        return wide.astype(np.float64)
    return values.astype(np.float64 if is_float(dtype) else np.int64)


def ulp_distance(got: Array, exact: Array, dtype: str) -> Array:
    """How many units in the last place of the exact value the two lie apart (NaN where one is not finite)."""
    kind = FORMATS[dtype]
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(exact)
        step = np.ldexp(1.0, np.maximum(exponent - kind.digits, kind.lowest_exponent - kind.digits + 1))
        distance: Array = np.abs(got - exact) / step
    return distance
