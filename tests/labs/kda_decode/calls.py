"""Runs in the stack's interpreter: calls of the upstream decode kernel, for probes to trace and count.

The kernel comes from the installed `fla-core`; nothing of it is kept here.
"""

from __future__ import annotations

import torch
from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd

KEY_DIM = VALUE_DIM = 128


def decode(sequences: int = 1, heads: int = 1, value_heads: int = 0, dtype: torch.dtype = torch.float32) -> None:
    """One decode step: normalisation, gate and beta inside the kernel, state with values first."""
    value_heads = value_heads or heads
    torch.manual_seed(0)
    shape = (sequences, 1, heads, KEY_DIM)
    q, k = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    v = torch.randn(sequences, 1, value_heads, VALUE_DIM).to(dtype)
    g = torch.randn(sequences, 1, value_heads, KEY_DIM).to(dtype)
    beta = torch.randn(sequences, 1, value_heads).to(dtype)
    fused_recurrent_kda_fwd(
        q, k, v, g, beta, torch.randn(value_heads), torch.randn(value_heads * KEY_DIM),
        initial_state=torch.randn(sequences, value_heads, VALUE_DIM, KEY_DIM), output_final_state=True,
        inplace_final_state=False, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True, lower_bound=-5.0, state_v_first=True,
    )  # fmt: skip


def decode_one_head() -> None:
    """One sequence, one head: the smallest launch that shows the repetition."""
    decode()


def decode_grouped() -> None:
    """Two sequences, two key heads, four value heads: sharing along heads and sequences must not be mistaken for it."""
    decode(sequences=2, heads=2, value_heads=4)
