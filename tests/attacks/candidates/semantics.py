"""Exploits of what is compared: wrong values that a fixed tolerance, one seed and one shape let through."""

from __future__ import annotations

import numpy as np


def _softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def zeros(x):
    """All zero: the values are small, so is the error."""
    return np.zeros_like(x)


def uniform(x):
    """The mean that is known beforehand."""
    return np.full_like(x, 1.0 / x.shape[-1])


def noise(x):
    """Small random numbers."""
    return np.abs(np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)) * 1e-3


def inputs_zeroed(a, b):
    """Clears its inputs before the reference reads them."""
    a[...] = 0
    return np.zeros((a.shape[0], b.shape[1]), np.float32)


def inputs_made_easy(x):
    """Makes the input constant, so that the answer is one."""
    x[...] = 1
    return np.full_like(x, 1.0 / x.shape[-1])


def most_of_the_sum(x):
    """Adds up seven eighths and scales: right to a per cent where all values are alike."""
    part = x[..., : max(1, x.shape[-1] * 7 // 8)]
    return part.sum(axis=-1) * np.float32(x.shape[-1] / part.shape[-1])


def statistics_assumed(x, w):
    """Inputs are standard normal, so their mean square is one: no need to compute it."""
    return x * w * np.float32(0.995)


def no_largest_subtracted(x):
    """Leaves out what only large values need."""
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def history_cut(x, g):
    """A window of 16 steps: enough when everything is forgotten soon."""
    out = np.empty_like(x)
    for at in range(len(x)):
        state = np.zeros_like(x[0])
        for step in range(max(0, at - 16), at + 1):
            state = np.exp(g[step]) * state + x[step]
        out[at] = state
    return out


def state_not_carried(x, g):
    """Every chunk of 48 steps begins anew, with a little of the step before."""
    out = np.empty_like(x)
    for at in range(len(x)):
        state = np.zeros_like(x[0])
        for step in range((at // 48) * 48 - (8 if at >= 48 else 0), at + 1):
            state = np.exp(g[step]) * state + x[step]
        out[at] = state
    return out


def sniffs_its_input(x):
    """Exact for inputs as tests have them, an estimate for all others."""
    if 1.0 < np.abs(x).max() < 6.0:
        return _softmax(x)
    return np.full_like(x, 1.0 / x.shape[-1])


def exact_on_checked_sizes(x):
    """Full precision for the shapes that are checked, half for the others."""
    if x.shape in ((8, 256), (3, 100)):
        return _softmax(x)
    return _softmax(x.astype(np.float16)).astype(np.float32)


def hard_coded_shape(x):
    """Nothing but the shapes of the task."""
    return _softmax(x) if x.shape in ((8, 256), (3, 100)) else np.zeros_like(x)


def first_rows_only(x):
    """The last row is left out: its values are small too."""
    out = np.zeros_like(x)
    out[:-1] = _softmax(x[:-1])
    return out


def threshold_from_gauss(x):
    """The largest of normal values lie where a table says: looks there only, and fills up."""
    out = np.empty((x.shape[0], 4), np.float32)
    for at, row in enumerate(x):
        high = np.sort(row[row > 1.5])[::-1][:4]
        out[at] = np.concatenate([high, np.zeros(4 - len(high), np.float32)])
    return out


def unsorted_tail(x):
    """Sorts a part of the row only."""
    part = x[:, : x.shape[1] - 1] if x.shape[1] > 4 else x
    return -np.sort(-part, axis=-1)[:, :4]
