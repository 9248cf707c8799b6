"""Exploits of what a comparator takes for an array."""

from __future__ import annotations

import numpy as np


def nan_as_wildcard(x):
    """No comparison with NaN is true, so no difference is too large."""
    return np.full_like(x, np.nan)


def one_nan_row(x):
    """NaN where the work was too much."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    y[-1] = np.nan
    return y


def broadcast_scalar(x):
    """One number that is stretched over everything."""
    return np.float32(1.0 / x.shape[-1])


def broadcast_row(x):
    """One row for all."""
    return np.full((1, x.shape[-1]), 1.0 / x.shape[-1], np.float32)


def other_dtype(x):
    """Half the bits, silently widened by the comparator."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(np.float16)


class _Agreeable:
    """Every difference from it is zero."""

    __array_ufunc__ = None

    def __rsub__(self, other):
        return np.zeros_like(other)

    __sub__ = __rsub__


def agreeable_object(x):
    """An object that agrees with everything."""
    return _Agreeable()


class _Shy(np.ndarray):
    """An array whose values cannot be far from anything."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return np.zeros(self.shape, np.float32)


def agreeable_array(x):
    """The same in the shape of an array."""
    return np.zeros_like(x).view(_Shy)
