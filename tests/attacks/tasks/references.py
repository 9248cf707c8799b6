"""What the attacked functions should compute, in plain numpy."""

from __future__ import annotations

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def total(x):
    return x.sum(axis=-1)


def matmul(a, b):
    return a @ b


def rmsnorm(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + x.dtype.type(1e-6)) * w


def scan(x, g):
    state, out = np.zeros_like(x[:1]).sum(axis=0), np.empty_like(x)
    for at in range(len(x)):
        state = np.exp(g[at]) * state + x[at]
        out[at] = state
    return out


def largest(x):
    return -np.sort(-x, axis=-1)[:, :4]
