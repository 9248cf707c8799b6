"""One float32 matrix product in each arithmetic that Triton can be asked for.

Covered: ieee; tf32 by rounding and by truncation; tf32x3, bf16x3 and bf16x6 in the order of partial products, with the
treatment of NaN, that Triton 3.7's compiled code has.
Not covered: the order in which a matrix unit adds, and how many bits it keeps while adding. Sums are float32 here.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from probes.numeric.triton.formats import (
    Float32,
    bf16_rounded,
    split_bf16,
    split_tf32,
    tf32_rounded,
    tf32_truncated,
)


class Arithmetic(StrEnum):
    """How the factors of a float32 product are read. Plain bf16 is there for comparison."""

    IEEE = "ieee"
    TF32_ROUNDED = "tf32-rounded"
    TF32_TRUNCATED = "tf32-truncated"
    TF32X3 = "tf32x3"
    BF16 = "bf16"
    BF16X3 = "bf16x3"
    BF16X6 = "bf16x6"


_BF16_PAIRS = {
    Arithmetic.BF16X3: ((1, 0), (0, 1)),
    Arithmetic.BF16X6: ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1)),
}
"""Which part of the left factor meets which of the right, before the product of the two largest."""


def dot(left: Float32, right: Float32, addend: Float32, arithmetic: Arithmetic) -> Float32:
    """`left @ right + addend` in this arithmetic; stacks of matrices work as in numpy."""
    with np.errstate(over="ignore", invalid="ignore"):
        return product(left, right, arithmetic) + addend


def product(left: Float32, right: Float32, arithmetic: Arithmetic) -> Float32:
    """The product alone."""
    if arithmetic is Arithmetic.IEEE:
        return _matmul(left, right)
    if arithmetic is Arithmetic.TF32_ROUNDED:
        return _matmul(tf32_rounded(left), tf32_rounded(right))
    if arithmetic is Arithmetic.TF32_TRUNCATED:
        return _matmul(tf32_truncated(left), tf32_truncated(right))
    if arithmetic is Arithmetic.BF16:
        return _matmul(bf16_rounded(left), bf16_rounded(right))
    if arithmetic is Arithmetic.TF32X3:
        return _tf32x3(left, right)
    return _bf16_parts(left, right, arithmetic)


def _matmul(left: Float32, right: Float32) -> Float32:
    found: Float32 = np.matmul(left, right)
    return found


def _tf32x3(left: Float32, right: Float32) -> Float32:
    (high_l, low_l), (high_r, low_r) = split_tf32(left), split_tf32(right)
    # The small parts reach the unit as float32 bits, and are truncated there.
    small = _matmul(tf32_truncated(low_l), high_r)
    small = _matmul(high_l, tf32_truncated(low_r)) + small
    return _matmul(high_l, high_r) + _without_nan(small)


def _bf16_parts(left: Float32, right: Float32, arithmetic: Arithmetic) -> Float32:
    pairs = _BF16_PAIRS[arithmetic]
    parts = 1 + max(max(pair) for pair in pairs)
    lefts, rights = split_bf16(left, parts), split_bf16(right, parts)
    small: Float32 | np.float32 = np.float32(0)
    for of_left, of_right in pairs:
        small = _matmul(lefts[of_left], rights[of_right]) + small
    return _matmul(lefts[0], rights[0]) + _without_nan(np.asarray(small, dtype=np.float32))


def _without_nan(small: Float32) -> Float32:
    """Small parts of infinite factors are NaN; the product of the large parts has the right answer for them."""
    return np.where(np.isnan(small), np.float32(0), small)
