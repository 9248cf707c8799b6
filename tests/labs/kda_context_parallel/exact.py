"""The unsplit recurrence in float64: what every rank's state should be.

Covered: the state entering each rank, forward and backward, from the very numbers that the kernels get; the delta rule
token by token, against which the chunk form is checked.
Not covered: outputs and gradients of the layer; only states cross ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from labs.kda_context_parallel.inputs import CHUNK, ChunkInputs, Float64, Tokens

SCALE = 1.0
"""Of the backward pass; `do` carries none."""


def state_after(tokens: Tokens) -> Float64:
    """Token by token: decay, then the write of what the state does not already hold."""
    state = np.zeros((tokens.k.shape[1], tokens.v.shape[1]))
    for k, v, beta, decay in zip(tokens.k, tokens.v, tokens.beta, tokens.decay, strict=True):
        state *= np.exp2(decay)[:, None]
        state += beta * np.outer(k, v - k @ state)
    return state


def forward_states(given: ChunkInputs, ranks: int) -> list[Float64]:
    """The state that enters each rank, (K, V): zero for the first."""
    state = np.zeros((given.kg.shape[1], given.u.shape[1]))
    return _entering(range(len(given.kg) // CHUNK), ranks, state, lambda chunk, old: _forward(given, chunk, old))


def backward_states(given: ChunkInputs, ranks: int) -> list[Float64]:
    """The gradient of the state that leaves each rank, (K, V): zero for the last."""
    state = np.zeros((given.kg.shape[1], given.u.shape[1]))
    chunks = range(len(given.kg) // CHUNK - 1, -1, -1)
    return _entering(chunks, ranks, state, lambda chunk, old: _backward(given, chunk, old))[::-1]


def _entering(chunks: range, ranks: int, state: Float64, step: Callable[[slice, Float64], Float64]) -> list[Float64]:
    found = []
    for done, number in enumerate(chunks):
        if done % (len(chunks) // ranks) == 0:
            found.append(state)
        state = step(slice(number * CHUNK, (number + 1) * CHUNK), state)
    return found


def _forward(given: ChunkInputs, chunk: slice, state: Float64) -> Float64:
    new = given.u[chunk] - given.w[chunk] @ state
    return np.exp2(given.gk[chunk][-1])[:, None] * state + given.kg[chunk].T @ new


def _backward(given: ChunkInputs, chunk: slice, state: Float64) -> Float64:
    written = given.dv[chunk] + given.kg[chunk] @ state
    decayed = np.exp2(given.gk[chunk][-1])[:, None] * state
    return decayed + SCALE * given.q[chunk].T @ given.do[chunk] - given.w[chunk].T @ written
