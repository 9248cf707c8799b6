"""Sums of float32 values."""

import numpy as np


def total(values):
    """The sum of an array of float32 values, as float32."""
    result = np.float32(0)
    for value in values:
        result = np.float32(result + value)
    return result
