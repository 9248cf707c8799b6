"""One product in each arithmetic, against the same recipe written out in float64 and Python loops."""

from __future__ import annotations

import numpy as np
import pytest

from probes.numeric.triton.arithmetic import Arithmetic, dot, product
from probes.numeric.triton.formats import bf16_rounded, tf32_rounded, tf32_truncated

RANDOM = np.random.default_rng(11)
LEFT = RANDOM.standard_normal((24, 32)).astype(np.float32)
RIGHT = RANDOM.standard_normal((32, 16)).astype(np.float32)
EXACT = LEFT.astype(np.float64) @ RIGHT.astype(np.float64)


def error(arithmetic: Arithmetic) -> float:
    return float(np.linalg.norm(product(LEFT, RIGHT, arithmetic) - EXACT) / np.linalg.norm(EXACT))


@pytest.mark.parametrize(
    ("arithmetic", "low", "high"),
    [
        (Arithmetic.IEEE, 0, 3e-7),
        (Arithmetic.TF32X3, 0, 6e-7),
        (Arithmetic.BF16X6, 0, 6e-7),
        (Arithmetic.BF16X3, 1e-6, 3e-5),
        (Arithmetic.TF32_ROUNDED, 1e-4, 5e-4),
        (Arithmetic.TF32_TRUNCATED, 4e-4, 2e-3),
        (Arithmetic.BF16, 1e-3, 5e-3),
    ],
)
def test_each_arithmetic_has_the_error_that_its_bits_allow(arithmetic: Arithmetic, low: float, high: float) -> None:
    assert low <= error(arithmetic) <= high


@pytest.mark.parametrize(
    ("arithmetic", "read"),
    [
        (Arithmetic.TF32_ROUNDED, tf32_rounded),
        (Arithmetic.TF32_TRUNCATED, tf32_truncated),
        (Arithmetic.BF16, bf16_rounded),
    ],
)
def test_one_element_is_bit_for_bit_the_product_of_what_the_unit_reads(arithmetic: Arithmetic, read) -> None:
    left, right = np.float32([[1.2345678]]), np.float32([[7.6543211]])
    # The product of two numbers of at most 11 bits fits float32 exactly.
    expected = np.float32(float(read(left)[0, 0]) * float(read(right)[0, 0]))
    assert product(left, right, arithmetic)[0, 0] == expected


def test_tf32x3_is_bit_for_bit_three_products_of_rounded_and_left_over_parts() -> None:
    for a, b in RANDOM.standard_normal((200, 2)).astype(np.float32):
        left, right = np.array([[a]]), np.array([[b]])
        high_l, high_r = tf32_rounded(left)[0, 0], tf32_rounded(right)[0, 0]
        low_l, low_r = tf32_truncated(left - high_l)[0, 0], tf32_truncated(right - high_r)[0, 0]
        small = np.float32(np.float32(high_l * low_r) + np.float32(low_l * high_r))
        assert product(left, right, Arithmetic.TF32X3)[0, 0] == np.float32(np.float32(high_l * high_r) + small)


def test_bf16x3_is_bit_for_bit_three_products_of_its_parts() -> None:
    for a, b in RANDOM.standard_normal((200, 2)).astype(np.float32):
        left, right = np.array([[a]]), np.array([[b]])
        high_l, high_r = bf16_rounded(left)[0, 0], bf16_rounded(right)[0, 0]
        low_l, low_r = bf16_rounded(left - high_l)[0, 0], bf16_rounded(right - high_r)[0, 0]
        small = np.float32(np.float32(high_l * low_r) + np.float32(low_l * high_r))
        assert product(left, right, Arithmetic.BF16X3)[0, 0] == np.float32(np.float32(high_l * high_r) + small)


@pytest.mark.parametrize("arithmetic", [Arithmetic.TF32X3, Arithmetic.BF16X3, Arithmetic.BF16X6])
def test_an_infinite_factor_gives_infinity_and_not_a_nan_from_its_small_parts(arithmetic: Arithmetic) -> None:
    left, right = np.float32([[np.inf, 1.0]]), np.float32([[2.0], [3.0]])
    assert dot(left, right, np.zeros((1, 1), np.float32), arithmetic)[0, 0] == np.inf


def test_truncation_is_biased_and_rounding_is_not() -> None:
    left, right = np.abs(LEFT), np.abs(RIGHT)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    assert (product(left, right, Arithmetic.TF32_TRUNCATED) < exact).all()
    rounded = product(left, right, Arithmetic.TF32_ROUNDED) - exact
    assert (rounded > 0).any()
    assert (rounded < 0).any()
