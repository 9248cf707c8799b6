"""Rounding to TF32 and bfloat16 against models that know nothing of bits: exact fractions and decimals of float64."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.numeric.triton import formats

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def grid(value: float, bits: int) -> tuple[Fraction, Fraction]:
    """The neighbours of |value| with this many bits after the point (subnormal numbers share the smallest step)."""
    exponent = max(math.frexp(abs(value))[1] - 1, -126) if value else -126
    step = Fraction(2) ** (exponent - bits)
    low = (Fraction(abs(value)) // step) * step
    return low, low + step


def nearest(value: float, bits: int, *, ties_to_even: bool) -> float:
    low, high = grid(value, bits)
    exact = Fraction(abs(value))
    if exact - low != high - exact:
        chosen = low if exact - low < high - exact else high
    else:
        chosen = low if ties_to_even and (low / (high - low)) % 2 == 0 else high
    return math.copysign(float(chosen) if chosen < Fraction(2) ** 128 else math.inf, value)


def one(function, value: float) -> float:
    return float(function(np.array([value], dtype=np.float32))[0])


@given(FLOATS)
@settings(max_examples=300, deadline=None)
def test_tf32_rounding_is_to_the_nearest_number_with_ten_bits_and_ties_go_away_from_zero(value: float) -> None:
    assert one(formats.tf32_rounded, value) == nearest(value, 10, ties_to_even=False)


@given(FLOATS)
@settings(max_examples=300, deadline=None)
def test_bf16_rounding_is_to_the_nearest_number_with_seven_bits_and_ties_go_to_even(value: float) -> None:
    assert one(formats.bf16_rounded, value) == nearest(value, 7, ties_to_even=True)


@given(FLOATS)
@settings(max_examples=300, deadline=None)
def test_truncation_never_leads_away_from_zero(value: float) -> None:
    assert one(formats.tf32_truncated, value) == math.copysign(float(grid(value, 10)[0]), value)


def test_a_tie_shows_the_difference_between_the_three() -> None:
    tie = 1 + 2**-11
    assert one(formats.tf32_rounded, tie) == 1 + 2**-10
    assert one(formats.tf32_truncated, tie) == 1.0
    assert one(formats.bf16_rounded, 1 + 2**-8) == 1.0


@pytest.mark.parametrize("function", [formats.tf32_rounded, formats.tf32_truncated, formats.bf16_rounded])
def test_infinities_and_nans_stay_what_they_are_whatever_their_low_bits(function) -> None:
    bits = np.array([0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF], dtype=np.uint32)
    found = function(bits.view(np.float32))
    assert found[0] == math.inf
    assert found[1] == -math.inf
    assert np.isnan(found[2:]).all()


@given(st.lists(FLOATS, min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_stored_bfloat16_numbers_come_back_exactly(values: list[float]) -> None:
    rounded = formats.bf16_rounded(np.array(values, dtype=np.float32))
    assert np.array_equal(formats.from_bf16(formats.to_bf16(rounded)), rounded)


def test_the_parts_of_a_split_add_up_to_the_number_as_far_as_they_reach() -> None:
    values = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
    high, low = formats.split_tf32(values)
    assert np.array_equal(high.astype(np.float64) + low, values)
    assert np.array_equal(np.sum(formats.split_bf16(values, 3), axis=0, dtype=np.float64), values)
    two = np.sum(formats.split_bf16(values, 2), axis=0, dtype=np.float64)
    assert 0 < np.abs((two - values) / values).max() <= 2**-16
