"""A module beside the candidate stands in for one that the judge imports late."""

from __future__ import annotations

import numpy as np


def shadowed(x):
    """Wrong; the neighbour `references.py` says that it is right."""
    return np.full_like(x, 3.0)
