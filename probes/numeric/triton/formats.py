"""Rounding float32 numbers to the formats that matrix units read: TF32 and bfloat16, bit by bit in numpy.

Covered: TF32 by rounding to nearest, ties away from zero (`cvt.rna.tf32.f32`), and by dropping the low 13 bits (what a
unit does with bits that nobody converted); bfloat16 to nearest, ties to even; infinities and NaNs stay what they are.
Not covered: 8-bit formats, flushing of subnormal numbers.

All functions take and return arrays of float32 of the same shape; the results are numbers of the narrower format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Bits16 = npt.NDArray[np.uint16]

_EXPONENT = np.uint32(0x7F80_0000)
_TF32_KEPT = np.uint32(0xFFFF_E000)
_TF32_HALF = np.uint32(0x0000_1000)
_QUIET = np.uint32(0x0040_0000)
_HIGH_HALF = np.uint32(0xFFFF_0000)


def tf32_rounded(values: Float32) -> Float32:
    """To the nearest number with 10 bits after the point; ties go away from zero."""
    bits = _bits(values)
    return _keep_special(bits, (bits + _TF32_HALF) & _TF32_KEPT)


def tf32_truncated(values: Float32) -> Float32:
    """The low 13 bits dropped: never away from zero, so that the error has a direction."""
    bits = _bits(values)
    return _keep_special(bits, bits & _TF32_KEPT)


def bf16_rounded(values: Float32) -> Float32:
    """To the nearest bfloat16; ties go to even."""
    bits = _bits(values)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return _keep_special(bits, (bits + np.uint32(0x7FFF) + odd) & _HIGH_HALF)


def to_bf16(values: npt.NDArray[Any]) -> Bits16:
    """The nearest bfloat16 numbers, as the 16 bits in which they are stored."""
    rounded = _bits(bf16_rounded(np.asarray(values, dtype=np.float32)))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def from_bf16(stored: Bits16) -> Float32:
    """Stored bfloat16 numbers as float32, exactly."""
    return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)


def split_tf32(values: Float32) -> tuple[Float32, Float32]:
    """The rounded part and what is left of it, as float32: the left part is read by a unit that truncates."""
    high = tf32_rounded(values)
    with np.errstate(invalid="ignore"):
        return high, values - high


def split_bf16(values: Float32, parts: int) -> list[Float32]:
    """The number as a sum of bfloat16 numbers, largest first."""
    left, found = values, []
    for _ in range(parts):
        part = bf16_rounded(left)
        found.append(part)
        with np.errstate(invalid="ignore"):
            left = left - part
    return found


def _bits(values: Float32) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)


def _keep_special(before: npt.NDArray[np.uint32], after: npt.NDArray[np.uint32]) -> Float32:
    """Infinities as they were; NaNs quiet, whatever their low bits were."""
    special = (before & _EXPONENT) == _EXPONENT
    if not special.any():
        return after.view(np.float32)
    not_a_number = special & ((before & ~(_EXPONENT | np.uint32(0x8000_0000))) != 0)
    kept = np.where(not_a_number, (before | _QUIET) & _HIGH_HALF, before)
    return np.where(special, kept, after).view(np.float32)
