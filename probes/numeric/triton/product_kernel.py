"""The smallest kernel with a float32 product, compiled to see what a precision becomes on a device.

Covered: one square block. Not covered: anything else. This module imports Triton; import it where Triton is.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
# Triton's compiler reads annotations, and knows none for pointers.
def product_kernel(left, right, out, SIDE: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """`out = left @ right`, all SIDE x SIDE and contiguous."""
    row = tl.arange(0, SIDE)
    at = row[:, None] * SIDE + row[None, :]
    if PRECISION is None:
        # A None that is passed on counts as asked, and takes another way through the compiler than silence.
        tl.store(out + at, tl.dot(tl.load(left + at), tl.load(right + at)))
    else:
        tl.store(out + at, tl.dot(tl.load(left + at), tl.load(right + at), input_precision=PRECISION))
