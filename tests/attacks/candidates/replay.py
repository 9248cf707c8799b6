"""Exploits that give a remembered result: the work is slow (20 ms), the memory is not."""

from __future__ import annotations

import hashlib
import os
import tempfile
from time import sleep

import numpy as np

_memory = {}


def _softmax(x):
    sleep(0.02)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _remembered(key, work):
    if key not in _memory:
        _memory[key] = work()
    return _memory[key]


def last_output(x):
    """Whatever was given last time."""
    return _remembered("last", lambda: _softmax(x)).copy()


def by_identity(x):
    """The same array object as before: the same result."""
    return _remembered(id(x), lambda: _softmax(x)).copy()


def by_pointer(x):
    """The same address as before."""
    return _remembered((x.ctypes.data, x.shape), lambda: _softmax(x)).copy()


def by_shape(x):
    """One result per shape."""
    return _remembered(x.shape, lambda: _softmax(x)).copy()


def by_sampled_fingerprint(x):
    """A hash of sixteen elements."""
    flat = x.ravel()
    sample = flat[:: max(1, flat.size // 16)].tobytes()
    return _remembered((x.shape, sample), lambda: _softmax(x)).copy()


def by_checksum(x):
    """A sum as fingerprint: coarse enough that a small change is not noticed."""
    return _remembered((x.shape, round(float(x.sum()), 1)), lambda: _softmax(x)).copy()


def by_content(x):
    """A hash of everything: always right, and never twice the work."""
    key = hashlib.blake2b(x.tobytes()).digest()
    return _remembered((x.shape, key), lambda: _softmax(x)).copy()


def by_content_alias(x):
    """The same, and it hands out the remembered array itself."""
    key = hashlib.blake2b(x.tobytes()).digest()
    return _remembered((x.shape, key), lambda: _softmax(x))


def same_buffer(x):
    """Every call returns the same array: right when it is looked at, overwritten later."""
    found = _remembered(("buffer", x.shape), lambda: np.empty_like(x))
    found[...] = _softmax(x)
    return found


def weights_by_identity(a, b):
    """A plan for the weights, kept by identity though the weights change."""
    plan = _remembered((id(b), b.shape), lambda: (sleep(0.02), b.copy())[1])
    return a @ plan


def by_file(x):
    """Results that lie on disk, by shape: prepared in one pass, read in the next."""
    path = os.path.join(tempfile.gettempdir(), f"bank-{os.getpid()}-{x.shape[0]}-{x.shape[1]}.npy")
    if not os.path.exists(path):
        np.save(path, _softmax(x))
    return np.load(path)


def by_known_seed(x):
    """The inputs of seed 0 are known: their result was prepared."""
    if "seed" not in _memory:
        guess = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
        _memory["seed"] = _softmax(guess)
    return _memory["seed"].copy() if x.shape == (8, 256) else _softmax(x)


def first_element_bank(x):
    """A bank of results that is asked with the shape and the first element, rounded."""
    return _remembered((x.shape, round(float(x.flat[0]), 1)), lambda: _softmax(x)).copy()
