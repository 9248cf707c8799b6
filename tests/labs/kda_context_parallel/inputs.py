"""Inputs of the chunked delta rule with a long memory: weak writes and slow decay, in which old state matters.

With strong gates a rank's transition matrix is close to zero after one chunk, and whatever was done to it is invisible.

Covered: forward (kg, w, u, gk) and backward (q, do, dv) of one head, in float64; rounding to the working type is the
caller's.
Not covered: ragged lengths, several sequences in a batch.

Shapes: (tokens, heads, dim) with one head; `gk` is the decay since the start of the chunk, as a base-2 logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CHUNK = 64
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a layer gets per token: query, key, value, write strength (0 to 1), decay (log2, per channel)."""

    q: Float64
    k: Float64
    v: Float64
    beta: Float64
    decay: Float64


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkInputs:
    """What the state kernels get: S ← diag(2^gk_last)·S + kgᵀ(u − w·S) for every chunk of 64 tokens."""

    kg: Float64
    w: Float64
    u: Float64
    gk: Float64
    q: Float64
    do: Float64
    dv: Float64


def draw(tokens: int, dim: int, seed: int) -> Tokens:
    """Unit keys, values of variance one, writes up to 1 %, decay up to 1e-5 per token."""
    random = np.random.default_rng([seed, tokens])
    k = random.standard_normal((tokens, dim))
    return Tokens(
        q=random.standard_normal((tokens, dim)) * dim**-0.5,
        k=k / np.linalg.norm(k, axis=-1, keepdims=True),
        v=random.standard_normal((tokens, dim)),
        beta=random.uniform(0, 0.01, tokens),
        decay=-random.uniform(0, 1e-5, (tokens, dim)),
    )


def chunked(tokens: Tokens, seed: int) -> ChunkInputs:
    """The delta rule's chunk form (WY representation): token by token and chunk by chunk give the same state."""
    length, dim = tokens.k.shape
    if length % CHUNK:
        raise ValueError(f"{length} tokens are not whole chunks of {CHUNK}")
    shape = (length // CHUNK, CHUNK, dim)
    k, v, g = (array.reshape(shape) for array in (tokens.k, tokens.v, tokens.decay))
    beta = tokens.beta.reshape(shape[:2])[..., None]
    gk = np.cumsum(g, axis=1)
    grown, shrunk = k * np.exp2(gk), k * np.exp2(-gk)
    inside = np.tril(beta * (grown @ shrunk.transpose(0, 2, 1)), -1)
    solve = np.linalg.inv(np.eye(CHUNK) + inside)
    random = np.random.default_rng([seed, length, 1])
    flat = (length, dim)
    return ChunkInputs(
        kg=(k * np.exp2(gk[:, -1:] - gk)).reshape(flat),
        w=(solve @ (beta * grown)).reshape(flat),
        u=(solve @ (beta * v)).reshape(flat),
        gk=gk.reshape(flat),
        q=(tokens.q.reshape(shape) * np.exp2(gk)).reshape(flat),
        do=random.standard_normal(flat),
        dv=random.standard_normal(flat) * 0.01,
    )
