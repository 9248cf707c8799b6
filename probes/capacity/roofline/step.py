"""Bytes and operations of one model step: a prefill or a decode, from the model's shape.

Conventions, printed with every result: a multiply-add is two operations; weights are read once a step; experts that no
token of the batch chose are not read (expected number for independent choices); keys and values are read once per
sequence; a decode uses the absorbed form of latent attention, a prefill the expanded form; the causal mean of the
context is used in a prefill; linear attention reads and writes its float32 state once per step, or with a replay ring
reads the state and the ring and writes one entry, and the whole state once in `ring` steps.
Covered: attention (grouped-query, MLA, DSA with shared indexers), KDA with and without ReplaySSM, experts,
prediction of several tokens. Not covered: activations (small beside weights and caches in a decode), communication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from probes.capacity.roofline.bound import Work
from probes.capacity.roofline.shape import Linear, Shape

BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5, "fp32": 4.0}
STATE_BYTES = 4
GATE_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a step is run. `drafts`: tokens proposed by multi-token prediction and checked in the same step."""

    batch: int = 1
    context: int = 4096
    new_tokens: int = 1
    weights: str = "bf16"
    cache: str = "bf16"
    index_cache: str = "fp8"
    arithmetic: str = "bf16"
    drafts: int = 0
    dense_attention: bool = False
    own_indexers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step part by part."""

    parts: Mapping[str, Work] = field(default_factory=dict)

    @property
    def total(self) -> Work:
        """All parts together."""
        total = Work(bytes=0.0)
        for part in self.parts.values():
            total = total + part
        return total


def weight_bytes(shape: Shape, weights: str) -> float:
    """Memory for all parameters."""
    return shape.parameters * BYTES[weights]


def decode(shape: Shape, setting: Setting) -> Step:
    """One decode step of a batch: each sequence gets one token, or drafts and one."""
    shape = _with_indexers(shape, setting)
    rows = setting.batch * (1 + setting.drafts)
    parts = {"weights": _weights(shape, setting, rows)}
    parts["attention"] = _attention(shape, setting, rows, float(setting.context), absorbed=True)
    if shape.indexer is not None and not setting.dense_attention:
        parts["indexer"] = _index(shape, setting, rows, float(setting.context))
    if shape.linear is not None:
        parts["linear attention"] = linear_decode(shape.linear, setting.arithmetic).times(
            shape.linear.layers * shape.linear.heads * setting.batch
        )
    if setting.drafts and shape.prediction_layers:
        used = _experts_used(shape, setting.batch)
        size = shape.prediction_parameters(used) * BYTES[setting.weights]
        active = shape.prediction_parameters(float(shape.experts.per_token) if shape.experts else 0.0)
        flop = 2.0 * active * setting.batch
        parts["prediction"] = Work(bytes=size, flop={setting.arithmetic: flop}).times(setting.drafts)
    return Step(parts=parts)


def prefill(shape: Shape, setting: Setting) -> Step:
    """A prefill of `new_tokens` for each sequence, on top of `context` tokens that are there already."""
    shape = _with_indexers(shape, setting)
    rows = setting.batch * setting.new_tokens
    mean = setting.context + setting.new_tokens / 2
    parts = {"weights": _weights(shape, setting, rows)}
    parts["attention"] = _attention(shape, setting, rows, mean, absorbed=False)
    if shape.indexer is not None and not setting.dense_attention:
        parts["indexer"] = _index(shape, setting, rows, mean)
    if shape.linear is not None:
        one = shape.linear
        flop = 7.0 * one.key_dim * one.value_dim * rows * one.layers * one.heads
        parts["linear attention"] = Work(bytes=0.0, flop={setting.arithmetic: flop})
    return Step(parts=parts)


def linear_decode(one: Linear, arithmetic: str = "bf16") -> Work:
    """One head of gated linear attention for one token: state, operands, arithmetic in float32, gates."""
    k, v = one.key_dim, one.value_dim
    state = float(k * v * STATE_BYTES)
    operands = 2.0 * BYTES[arithmetic] * (k + v) + k * GATE_BYTES
    if not one.ring:
        return Work(bytes=2 * state + operands, flop={"fp32": 7.0 * k * v}, transcendentals=2.0 * k + 4)
    ring = one.ring * (k * GATE_BYTES + k * 2.0 + v * 2.0)
    flop = 2.0 * k * v + one.ring * 4.0 * (k + v) + 7.0 * k * v / one.ring
    return Work(
        bytes=state + state / one.ring + operands + ring, flop={"fp32": flop},
        transcendentals=one.ring * k + 2.0 * k + 4,
    )  # fmt: skip


def _with_indexers(shape: Shape, setting: Setting) -> Shape:
    if shape.indexer is None or not setting.own_indexers:
        return shape
    return replace(shape, indexer=replace(shape.indexer, layers_with_own=shape.softmax_layers))


def _experts_used(shape: Shape, rows: int) -> float:
    if shape.experts is None:
        return 0.0
    chosen = shape.experts.per_token / shape.experts.routed
    return shape.experts.routed * (1 - (1 - chosen) ** rows)


def _weights(shape: Shape, setting: Setting, rows: int) -> Work:
    flop = 2.0 * shape.active_parameters * rows
    size = shape.trunk(_experts_used(shape, rows)) * BYTES[setting.weights]
    return Work(bytes=size, flop={setting.arithmetic: flop})


def _attention(shape: Shape, setting: Setting, rows: int, context: float, *, absorbed: bool) -> Work:
    sparse = shape.indexer is not None and not setting.dense_attention
    seen = min(context, float(shape.indexer.top_k)) if sparse and shape.indexer else context
    if shape.latent is not None:
        one = shape.latent
        width = (2 * one.kv_rank + one.rope_dim) if absorbed else (one.nope_dim + one.rope_dim + one.value_dim)
        entry = (one.kv_rank + one.rope_dim) * BYTES[setting.cache]
    else:
        width, entry = 2 * shape.head_dim, 2.0 * shape.kv_heads * shape.head_dim * BYTES[setting.cache]
    flop = 2.0 * shape.heads * width * seen * rows * shape.softmax_layers
    return Work(
        bytes=entry * seen * setting.batch * shape.softmax_layers, flop={setting.arithmetic: flop},
        transcendentals=shape.heads * seen * rows * shape.softmax_layers,
    )  # fmt: skip


def _index(shape: Shape, setting: Setting, rows: int, context: float) -> Work:
    assert shape.indexer is not None
    one = shape.indexer
    flop = 2.0 * one.heads * one.head_dim * context * rows * one.layers_with_own
    size = one.head_dim * BYTES[setting.index_cache] * context * setting.batch * one.layers_with_own
    return Work(bytes=size, flop={setting.arithmetic: flop})
