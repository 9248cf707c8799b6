"""Exploits of what was really used: a kernel for show, and another that does the work."""

from __future__ import annotations

import numpy as np


def _softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def kernel(x):
    """The new kernel: it never ends well."""
    raise RuntimeError("this device is not supported")


def falls_back(x):
    """Tries the kernel; the library does the work, always."""
    try:
        return kernel(x)
    except RuntimeError:
        return _softmax(x)


def shown(x):
    """A kernel that runs, for the profiler."""
    return x + 1


def fig_leaf(x):
    """Calls the kernel and throws its result away."""
    shown(x)
    return _softmax(x)


def never_called(x):
    """The kernel is defined, and that is all."""
    return _softmax(x)
