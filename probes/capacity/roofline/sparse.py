"""What sparse attention saves at a length, read in each way that a published figure could mean.

"DSA saves 2.9x at 1 M tokens" can mean operations of the attention, of the whole step, or bytes of a decode at some
batch and weight type; against dense attention, or against an indexer in every layer. Each reading is computed and
printed with its assumption; those inside the published range are marked, and nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from probes.capacity.roofline.shape import Shape
from probes.capacity.roofline.step import Setting, Step, decode, prefill

PUBLISHED = {200_000: (1.5, 2.0, "GLM-5: 1.5-2x at 200 K"), 1_000_000: (2.9, 2.9, "GLM-5.2: 2.9x FLOPs at 1 M")}
TOLERANCE = 0.08
"""A published figure of two digits, for a model whose card leaves out part of the shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One way to read a saving."""

    what: str
    assumption: str
    ratio: float
    published: bool


def readings(shape: Shape, context: int) -> list[Reading]:
    """All readings at a length; `published` marks those within the published range of it."""
    dense, own, shared = (_decode(shape, context, variant) for variant in _VARIANTS)
    found = [
        ("whole step, operations per token", "indexers shared against one in every layer; decode, absorbed MLA",
         own.total.flops / shared.total.flops),
        ("whole step, operations per token", "against dense attention; decode, absorbed MLA",
         dense.total.flops / shared.total.flops),
        ("attention, operations per token", "against dense attention; decode, absorbed MLA, indexer included",
         _attention(dense) / _attention(shared)),
    ]  # fmt: skip
    whole = [prefill(shape, replace(variant, context=0, new_tokens=context)).total.flops for variant in _VARIANTS]
    found.append(
        ("whole prefill, operations", "against dense attention, causal mean, expanded MLA", whole[0] / whole[2])
    )
    for weights, batch in (("bf16", 8), ("fp8", 2), ("fp8", 8), ("int4", 1)):
        sizes = [_decode(shape, context, variant, weights, batch).total.bytes for variant in _VARIANTS]
        assumption = f"decode of {batch}, {weights} weights, bf16 cache, fp8 index"
        found.append(("whole step, bytes", f"{assumption}; against dense, indexer in every layer", sizes[0] / sizes[1]))
        found.append(("whole step, bytes", f"{assumption}; against dense, indexers shared", sizes[0] / sizes[2]))
    return [Reading(what=a, assumption=b, ratio=c, published=in_published(context, c)) for a, b, c in found]


def in_published(context: int, ratio: float) -> bool:
    """Whether a ratio lies in the published range of this length, within the tolerance of two digits."""
    low, high, _ = PUBLISHED.get(context, (1.0, 0.0, ""))
    return low * (1 - TOLERANCE) <= ratio <= high * (1 + TOLERANCE)


def lines(found: Sequence[Reading], context: int) -> list[str]:
    """The readings as a table."""
    _, _, said = PUBLISHED.get(context, (0, 0, "no published figure for this length"))
    rows = [f"sparse attention at {context:,} tokens (published: {said}; marked when within {TOLERANCE:.0%} of it)"]
    for one in found:
        mark = "in the published range" if one.published else ""
        rows.append(f"  x{one.ratio:<7.2f}{one.what}: {one.assumption}  {mark}".rstrip())
    return rows


_VARIANTS = (Setting(dense_attention=True), Setting(own_indexers=True), Setting())
"""Dense attention; an indexer in every layer; indexers shared as the model says."""


def _decode(shape: Shape, context: int, variant: Setting, weights: str = "bf16", batch: int = 1) -> Step:
    return decode(shape, replace(variant, context=context, weights=weights, batch=batch))


def _attention(step: Step) -> float:
    return sum(work.flops for name, work in step.parts.items() if name in ("attention", "indexer"))
