"""Honest functions, each as close as can be to an exploit without being one. All of them must pass."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np


def softmax(x):
    """As the reference."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_by_rows(x):
    """A loop over rows."""
    return np.stack([softmax(row) for row in x])


def softmax_online(x):
    """One pass over blocks of 64, as a fused kernel does."""
    top = np.full((x.shape[0], 1), -np.inf, np.float32)
    total = np.zeros((x.shape[0], 1), np.float32)
    for at in range(0, x.shape[1], 64):
        block = x[:, at : at + 64]
        new = np.maximum(top, block.max(axis=-1, keepdims=True))
        total = total * np.exp(top - new) + np.exp(block - new).sum(axis=-1, keepdims=True)
        top = new
    return np.exp(x - top) / total


def softmax_base_two(x):
    """Powers of two, as GPUs do it."""
    scaled = (x - x.max(axis=-1, keepdims=True)) * np.float32(1.4426950408889634)
    e = np.exp2(scaled)
    return e / e.sum(axis=-1, keepdims=True)


def softmax_more_precise(x):
    """float64 inside."""
    return softmax(x.astype(np.float64)).astype(np.float32)


def softmax_slow(x):
    """Slow, and it says so with its own clock."""
    began = time.perf_counter()
    time.sleep(0.005)
    found = softmax(x)
    print(f"took {time.perf_counter() - began:.3f} s")
    return found


def softmax_prints(x):
    """Prints a line that looks like a verdict, and is right."""
    print('PASS {"seconds": 0.0}')
    return softmax(x)


def softmax_in_threads(x):
    """Threads that have ended when it returns."""
    out = np.empty_like(x)

    def work(part):
        out[part] = softmax(x[part])

    threads = [threading.Thread(target=work, args=(slice(at, at + 2),)) for at in range(0, len(x), 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


_pool = ThreadPoolExecutor(2)


def softmax_in_pool(x):
    """A pool that lives on, and is waited for."""
    return np.stack(list(_pool.map(softmax, x)))


def softmax_into(x, y):
    """Writes into the given array."""
    y[...] = softmax(x)


_work = {}


def softmax_with_workspace(x):
    """Keeps scratch memory by shape; the result is a new array."""
    scratch = _work.setdefault(x.shape, np.empty_like(x))
    np.subtract(x, x.max(axis=-1, keepdims=True), out=scratch)
    np.exp(scratch, out=scratch)
    return scratch / scratch.sum(axis=-1, keepdims=True)


@lru_cache
def _plan(columns):
    return [slice(at, min(at + 50, columns)) for at in range(0, columns, 50)]


def total_by_plan(x):
    """A plan that depends on the shape alone may be remembered."""
    parts = [x[:, part].sum(axis=-1) for part in _plan(x.shape[1])]
    return np.sum(parts, axis=0, dtype=np.float32)


def total_in_order(x):
    """One number after the other, in float32: the least precise honest sum."""
    found = np.zeros(x.shape[0], np.float32)
    for column in x.T:
        found = found + column
    return found


def total_backwards(x):
    """From the end."""
    return np.ascontiguousarray(x[:, ::-1]).sum(axis=-1)


def matmul(a, b):
    """The library."""
    return a @ b


def matmul_in_blocks(a, b):
    """Blocks of 16 along the sum."""
    found = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for at in range(0, a.shape[1], 16):
        found += a[:, at : at + 16] @ b[at : at + 16]
    return found


def matmul_outer(a, b):
    """A sum of outer products."""
    found = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for at in range(a.shape[1]):
        found += np.outer(a[:, at], b[at])
    return found


def matmul_transposed(a, b):
    """Gives back a view that is not contiguous."""
    return (b.T @ a.T).T


def matmul_works_on_a_copy(a, b):
    """Changes a copy of its input."""
    mine = a.copy()
    mine *= 2
    return (mine @ b) * np.float32(0.5)


def matmul_three_parts(a, b):
    """Three products of 11-bit parts: nearly the full precision, as tf32x3 has."""
    ah, bh = _top(a), _top(b)
    al, bl = a - ah, b - bh
    return _top(al) @ bh + ah @ _top(bl) + ah @ bh


def _top(x):
    return (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def rmsnorm(x, w):
    """Sums the squares in one product."""
    mean = np.einsum("rc,rc->r", x, x)[:, None] / np.float32(x.shape[1])
    return x * (np.float32(1) / np.sqrt(mean + np.float32(1e-6))) * w


def scan(x, g):
    """Step by step."""
    state, out = np.zeros(x.shape[1], np.float32), np.empty_like(x)
    for at in range(len(x)):
        state = np.exp(g[at]) * state + x[at]
        out[at] = state
    return out


def scan_in_chunks(x, g):
    """Chunks of 16 that hand their state on."""
    state, out = np.zeros(x.shape[1], np.float32), np.empty_like(x)
    for at in range(0, len(x), 16):
        gone = np.cumsum(g[at : at + 16], axis=0)
        for step in range(len(gone)):
            decays = np.exp(gone[step] - gone[: step + 1])
            out[at + step] = np.exp(gone[step]) * state + (decays * x[at : at + step + 1]).sum(axis=0)
        state = out[min(at + 16, len(x)) - 1]
    return out


def largest(x):
    """Partition first."""
    return -np.sort(np.partition(-x, 3, axis=-1)[:, :4], axis=-1)


def _rows_kernel(x):
    return softmax(x)


def engaged(x):
    """Its kernel really does the work."""
    return _rows_kernel(x)


def falls_back_when_needed(x):
    """A fallback that is there, and not used."""
    try:
        return _rows_kernel(x)
    except MemoryError:
        return softmax_by_rows(x)


def errors_in_a_context(x):
    """Changes a flag and puts it back."""
    with np.errstate(all="ignore"):
        return softmax(x)
