"""The smallest kernel with a float32 product, compiled to see what a precision becomes on a device.

Covered: one square block. Not covered: anything else. This module imports Triton; import it where Triton is.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def product_kernel(  # type: ignore[no-untyped-def]  # noqa: D103
    left, right, out, SIDE: tl.constexpr, PRECISION: tl.constexpr
):
    row = tl.arange(0, SIDE)
    at = row[:, None] * SIDE + row[None, :]
    tl.store(out + at, tl.dot(tl.load(left + at), tl.load(right + at), input_precision=PRECISION))


KERNEL: Any = product_kernel
