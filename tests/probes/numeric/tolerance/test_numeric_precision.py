from __future__ import annotations

import numpy as np
import pytest

from probes.numeric.precision import FORMATS, read, rounded, stored, ulp_distance

VALUES = np.concatenate(
    [
        np.random.default_rng(0).standard_normal(2000) * 10.0 ** np.random.default_rng(1).uniform(-45, 38, 2000),
        [0.0, -0.0, 1e39, -1e39, np.inf, -np.inf, np.nan, 65504.0, 65519.9, 65520.0, 5.96e-8, 1e-45, 2**-149],
    ]
)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rounding_agrees_with_numpy_also_at_the_ends_of_the_range(dtype: str) -> None:
    with np.errstate(all="ignore"):
        wanted = VALUES.astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(rounded(VALUES, dtype), wanted)


def test_bfloat16_is_the_upper_half_of_a_float32_rounded_to_even() -> None:
    tie = np.float32(1 + 2**-8)
    assert rounded(np.array([tie]), "bfloat16")[0] == 1.0
    assert rounded(np.array([1 + 3 * 2**-8]), "bfloat16")[0] == 1 + 2**-6
    values = rounded(VALUES, "bfloat16")
    np.testing.assert_array_equal(read(stored(values, "bfloat16"), "bfloat16"), values)


def test_tf32_keeps_eleven_bits() -> None:
    error = np.abs(rounded(VALUES[:2000], "tf32") - VALUES[:2000]) / np.abs(VALUES[:2000])
    normal = np.abs(VALUES[:2000]) > FORMATS["tf32"].smallest_normal
    assert error[normal].max() <= FORMATS["tf32"].unit_roundoff
    assert error[normal].max() > FORMATS["tf32"].unit_roundoff / 2


def test_neighbours_are_one_unit_in_the_last_place_apart() -> None:
    one = np.array([1.0, 1000.0, 1e-40])
    next_up = np.nextafter(one.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    np.testing.assert_allclose(ulp_distance(next_up, rounded(one, "float32"), "float32"), 1.0)
