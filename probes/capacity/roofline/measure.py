"""This machine's own peaks, measured: bytes copied and float32 multiply-adds in a second.

The best of several repeats is taken: a peak is what the machine can do when nothing disturbs it, and it is only used as
a limit. Covered: all cores that numpy's library uses. Not covered: caches (the arrays are much larger), half precision.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from probes.capacity.roofline.hardware import Hardware

COPY_BYTES = 256 << 20
MATRIX = 1024
REPEATS = 7


def this_cpu(
    *, clock: Callable[[], float] = time.perf_counter, copy_bytes: int = COPY_BYTES, matrix: int = MATRIX,
    repeats: int = REPEATS,
) -> Hardware:  # fmt: skip
    """The hardware entry of this machine; takes a few seconds."""
    source = np.ones(copy_bytes // 8)
    target = np.empty_like(source)
    a = np.ones((matrix, matrix), dtype=np.float32)
    exponent = np.full(1 << 20, 0.5, dtype=np.float32)
    result = np.empty_like(exponent)
    copy_s = _best(lambda: np.copyto(target, source), clock, repeats)
    product_s = _best(lambda: a @ a, clock, repeats)
    exp_s = _best(lambda: np.exp(exponent, out=result), clock, repeats)
    cores = os.cpu_count() or 1
    return Hardware(
        name="cpu", memory_bytes=float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        bandwidth_byte_per_s=2 * copy_bytes / copy_s, flop_per_s={"fp32": 2.0 * matrix**3 / product_s},
        multiprocessors=1, clock_hz=exponent.size / exp_s, transcendentals_per_clock=1,
        source=f"measured here on {cores} cores, best of {repeats}",
    )  # fmt: skip


def _best(work: Callable[[], object], clock: Callable[[], float], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return max(min(times), 1e-9)
