"""The operators, in plain numpy. Each keeps the type of its inputs, so that its own error can be seen.

Covered: what the formulas of the usual definitions say.
Not covered: speed.
"""

from __future__ import annotations

import math

import numpy as np

from probes.numeric.precision import Array


def softmax(x: Array) -> Array:
    """Along the last axis."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    found: Array = powers / powers.sum(axis=-1, keepdims=True)
    return found


def logsumexp(x: Array) -> Array:
    """Logarithm of the sum of exponentials, per row."""
    top = x.max(axis=-1, keepdims=True)
    found: Array = (np.log(np.exp(x - top).sum(axis=-1, keepdims=True)) + top)[..., 0]
    return found


def layernorm(x: Array, weight: Array, bias: Array) -> Array:
    """Mean and variance of each row taken out."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + x.dtype.type(1e-5))
    result: Array = centred * scale * weight + bias
    return result


def rmsnorm(x: Array, weight: Array) -> Array:
    """Root mean square of each row taken out."""
    result: Array = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + x.dtype.type(1e-6)) * weight
    return result


def groupnorm(x: Array) -> Array:
    """[batch, channels, length]: four groups of channels, each normalised as a whole."""
    groups = x.reshape(x.shape[0], 4, -1)
    centred = groups - groups.mean(axis=-1, keepdims=True)
    found = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + x.dtype.type(1e-5))
    shaped: Array = found.reshape(x.shape)
    return shaped


def gelu(x: Array) -> Array:
    """The form with the hyperbolic tangent."""
    inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
    result: Array = x.dtype.type(0.5) * x * (1 + np.tanh(inner))
    return result


def silu(x: Array) -> Array:
    """X times its logistic value."""
    result: Array = x / (1 + np.exp(-x))
    return result


def swiglu(x: Array, gate: Array) -> Array:
    """A gated unit."""
    return silu(gate) * x


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    found: Array = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return found


def rope(x: Array) -> Array:
    """[time, heads, width]: halves of each head turned by an angle that grows with time."""
    half = x.shape[-1] // 2
    speed = 10000.0 ** (-np.arange(half) / half)
    angle = np.arange(x.shape[0])[:, None, None] * speed
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def matmul(a: Array, b: Array) -> Array:
    """A product of matrices."""
    found: Array = a @ b
    return found


def attention(q: Array, k: Array, v: Array) -> Array:
    """One head, causal; queries are the last ones of the keys' positions."""
    scores = q @ k.T / q.dtype.type(math.sqrt(q.shape[-1]))
    ahead = np.arange(k.shape[0])[None, :] > np.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
    found: Array = softmax(np.where(ahead, q.dtype.type(-np.inf), scores)) @ v
    return found


def decode_attention(q: Array, k: Array, v: Array) -> Array:
    """One query per head against all keys."""
    scores = np.einsum("hd,thd->ht", q, k) / q.dtype.type(math.sqrt(q.shape[-1]))
    found: Array = np.einsum("ht,thd->hd", softmax(scores), v)
    return found


def cumsum(x: Array) -> Array:
    """Running sum along the last axis."""
    found: Array = np.cumsum(x, axis=-1)
    return found


def conv1d(x: Array, weight: Array) -> Array:
    """[time, channels] with four causal taps per channel."""
    padded = np.concatenate([np.zeros_like(x[:1])] * 3 + [x], axis=0)
    found: Array = sum((padded[tap : tap + len(x)] * weight[tap] for tap in range(4)), np.zeros_like(x))
    return found


def topk_gate(x: Array) -> tuple[Array, Array]:
    """The two largest logits of each row as weights that sum to one, and their places (the lower one of equals)."""
    places = np.argsort(-x, axis=-1, kind="stable")[:, :2]
    return softmax(np.take_along_axis(x, places, axis=-1)), places


def cross_entropy(logits: Array, target: Array) -> Array:
    """Negative log-likelihood of each target."""
    result: Array = logsumexp(logits) - np.take_along_axis(logits, target[:, None], axis=-1)[:, 0]
    return result


def embedding(table: Array, tokens: Array) -> Array:
    """Rows of a table."""
    return table[tokens]


def linear_recurrence(x: Array, gate: Array) -> Array:
    """[time, width]: a state that decays by exp(gate) and takes up x."""
    state, found = np.zeros_like(x[0]), np.empty_like(x)
    for at in range(len(x)):
        state = np.exp(gate[at]) * state + x[at]
        found[at] = state
    return found


def delta_rule(q: Array, k: Array, v: Array, gate: Array, beta: Array) -> tuple[Array, Array]:
    """A gated delta rule, step by step: the state forgets, and moves towards v where k points. Also the last state."""
    state = np.zeros((k.shape[1], v.shape[1]), dtype=k.dtype)
    found = np.empty_like(v)
    keys = k / np.sqrt((k * k).sum(axis=-1, keepdims=True) + k.dtype.type(1e-6))
    for at in range(len(k)):
        state = np.exp(gate[at]) * state
        state = state + beta[at] * np.outer(keys[at], v[at] - keys[at] @ state)
        found[at] = q[at] @ state
    return found, state


def ragged_sum(x: Array, borders: Array) -> Array:
    """Sums of rows between borders; an empty part gives zeros."""
    parts = zip(borders[:-1], borders[1:], strict=True)
    return np.stack([x[low:high].sum(axis=0) for low, high in parts]).astype(x.dtype)


def int8_rows(x: Array) -> tuple[Array, Array]:
    """Each row in whole numbers up to 127, and its scale."""
    scale = np.abs(x).max(axis=-1) / x.dtype.type(127)
    safe = np.where(scale > 0, scale, x.dtype.type(1))
    return np.rint(x / safe[:, None]), scale
