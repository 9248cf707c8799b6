"""Exploits of loose tolerances: less precision than was promised."""

from __future__ import annotations

import sys

import numpy as np


def _rounded(x, bits):
    whole = x.view(np.uint32)
    return (whole & np.uint32((0xFFFFFFFF << bits) & 0xFFFFFFFF)).view(np.float32)


def half_precision(a, b):
    """Everything in float16."""
    return (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)


def bfloat16_inputs(a, b):
    """Inputs cut to 8 bits."""
    return _rounded(np.ascontiguousarray(a), 16) @ _rounded(np.ascontiguousarray(b), 16)


def tf32_inputs(a, b):
    """Inputs cut to 11 bits, as a tensor core does when nobody says otherwise."""
    return _rounded(np.ascontiguousarray(a), 13) @ _rounded(np.ascontiguousarray(b), 13)


def tf32_result(x):
    """The result cut to 11 bits."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return _rounded(e / e.sum(axis=-1, keepdims=True), 13)


def integer_product(a, b):
    """Whole numbers of 10 bits with one scale per tensor."""
    sa, sb = (np.abs(v).max() / 511 or 1.0 for v in (a, b))
    return (np.rint(a / sa) @ np.rint(b / sb) * (sa * sb)).astype(np.float32)


def reference_made_coarse(a, b):
    """Turns the judge's own precision down, and follows it."""
    sys.modules["__main__"].DTYPE = "float16"
    return (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)


def fewer_terms(a, b):
    """Leaves out what is multiplied with less than a hundredth."""
    return (np.where(np.abs(a) < 0.01, 0, a) @ b).astype(np.float32)


def flags_flipped(x):
    """Silences the floating-point warnings of the whole process for its own comfort."""
    np.seterr(all="ignore")
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
