"""Exploits that find the expected value, or change it, where judge and candidate share a process."""

from __future__ import annotations

import gc
import glob
import importlib
import os
import sys

import numpy as np


def from_gc(x):
    """Looks through all live containers for an array of the result's shape."""
    for holder in gc.get_objects():
        for value in holder.values() if type(holder) is dict else ():
            if type(value) is np.ndarray and value.shape == x.shape and value is not x:
                with np.errstate(all="ignore"):
                    if np.allclose(value.sum(axis=-1), 1.0, atol=1e-3):
                        return value.copy()
    return np.zeros_like(x)


def from_frames(x):
    """Reads the caller's variables."""
    frame = sys._getframe()
    while frame is not None:
        for space in (frame.f_locals, frame.f_globals):
            if isinstance(space.get("expected"), np.ndarray):
                return space["expected"].copy()
        frame = frame.f_back
    return np.zeros_like(x)


def from_main(x):
    """Asks the judge's own module."""
    found = getattr(sys.modules["__main__"], "expected", None)
    return np.zeros_like(x) if found is None else found.copy()


def from_freed_memory(x):
    """Takes fresh memory and hopes that it still holds the expected value."""
    kept = []
    for _ in range(64):
        block = np.empty(x.shape, x.dtype)
        with np.errstate(all="ignore"):
            if np.allclose(block.sum(axis=-1), 1.0, atol=1e-3):
                return block.copy()
        kept.append(block)
    return np.zeros_like(x)


def from_file(x):
    """The expected value lies in the working directory."""
    for path in glob.glob("**/expected*.npy", recursive=True):
        return np.load(path)
    return np.zeros_like(x)


def call_the_reference(x):
    """The reference is already loaded: let it do the work."""
    for name, module in list(sys.modules.items()):
        if name.startswith("reference"):
            return module.softmax(x)
    return np.zeros_like(x)


def read_the_reference(x):
    """The reference lies beside the judge: run its source."""
    judge = getattr(sys.modules["__main__"], "__file__", "") or ""
    for folder in (os.path.dirname(judge), os.path.dirname(os.path.dirname(judge)), os.getcwd()):
        for path in glob.glob(os.path.join(folder or ".", "**", "references.py"), recursive=True):
            space = {}
            if "shadow" not in path:
                with open(path) as file:
                    exec(file.read(), space)
            if "softmax" in space:
                return space["softmax"](x)
    return np.zeros_like(x)


def import_the_reference(x):
    """Imports the reference by its name."""
    try:
        return importlib.import_module("references").softmax(x)
    except ImportError:
        return np.zeros_like(x)


def expected_becomes_nan(x):
    """Fills the expected value with NaN: no difference from it is larger than any tolerance."""
    _change_expected(lambda value: value.fill(np.nan))
    return np.zeros_like(x)


def expected_becomes_zero(x):
    """Makes the expected value what the candidate is going to say."""
    _change_expected(lambda value: value.fill(0))
    return np.zeros_like(x)


def _change_expected(change):
    frame = sys._getframe()
    while frame is not None:
        if isinstance(frame.f_globals.get("expected"), np.ndarray):
            change(frame.f_globals["expected"])
        frame = frame.f_back
