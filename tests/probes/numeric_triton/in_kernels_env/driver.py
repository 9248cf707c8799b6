"""A driver for `python -m probes.numeric.triton`: dots of two types, stated and not, in a kernel and in its helper."""

import torch
import triton
import triton.language as tl


@triton.jit
def inner(x, y):
    return tl.dot(x, y, input_precision="tf32x3")


@triton.jit
def kernel(a, b, c, out, N: tl.constexpr):
    i = tl.arange(0, N)
    p = i[:, None] * N + i[None, :]
    x, y = tl.load(a + p), tl.load(b + p)
    z = tl.dot(x, y) + inner(x, y)
    for step in range(2):
        z += step.to(tl.float32)
    h = tl.load(c + p)
    z += tl.dot(h * 2, h)
    tl.store(out + p, z)


def run():
    torch.manual_seed(0)
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    c = torch.randn(16, 16).bfloat16()
    out = torch.zeros(16, 16)
    kernel[(1,)](a, b, c, out, 16)
    return out
