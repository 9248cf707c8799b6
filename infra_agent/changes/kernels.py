"""Which source files are kernels, by their names: suffixes of kernel languages, or a word in the path that says so.

Not covered: what a file holds.
"""

from __future__ import annotations

import re

SUFFIXES = (".cu", ".cuh", ".hip", ".metal", ".cl", ".ptx")
WORDS = frozenset({"kernel", "kernels", "triton"})


def is_kernel(path: str) -> bool:
    """Whether a source file is one of kernels."""
    lower = path.lower()
    return lower.endswith(SUFFIXES) or not WORDS.isdisjoint(re.split(r"[/_.-]", lower))
