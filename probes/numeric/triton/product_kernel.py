"""The smallest kernel with a float32 product, compiled to see what a precision becomes on a device.

Covered: one square block. Not covered: anything else. This module imports Triton; import it where Triton is.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def product_kernel(left: Any, right: Any, out: Any, SIDE: tl.constexpr, PRECISION: tl.constexpr) -> None:
    """`out = left @ right`, all SIDE x SIDE and contiguous."""
    row = tl.arange(0, SIDE)
    at = row[:, None] * SIDE + row[None, :]
    tl.store(out + at, tl.dot(tl.load(left + at), tl.load(right + at), input_precision=PRECISION))
