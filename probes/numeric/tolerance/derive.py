"""How large an error may be, with the reason: derived per row and per tensor from what honest arithmetic does.

    allowed = 8 · max(own error, effect of one rounding of the inputs, one rounding of the result)
            + 2 · sqrt(terms of the longest sum) · roundoff of the accumulator · size, or conditioning if that is larger
            + the smallest normal number (hardware may flush below it)

Where inputs are sorted or constant, roundings do not average out: that part is then taken times the root of the terms.

Each term is measured on the row (or tensor) at hand, so it scales with it. An accumulator is float32 for every format
that is not wider. The square root is the usual growth of independent roundings; a sum in TF32 or bfloat16 lies far
above it.

Covered: relative Frobenius and largest error, of each row and of each tensor; what the figures were, for the reader.
Not covered: formats with block scales; distributions of errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from probes.numeric.precision import FORMATS, Array, accumulator
from probes.numeric.tolerance.expected import Expected, rows

SLACK = 8.0
GROWTH = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Allowed absolute errors of one float output: Frobenius norm and largest element, per row and for the tensor."""

    row_norm: Array
    row_largest: Array
    tensor_norm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """Where a tolerance comes from, as relative errors of the whole tensor."""

    output: str
    claim: str
    own_error: float
    conditioning: float
    result_rounding: float
    accumulation: float
    allowed: float
    terms: int
    not_judged: int


def allowed(expected: Expected) -> Allowed:
    """The tolerance for one output."""
    table = _Table(expected)
    smallest, (count, width) = table.smallest, table.exact.shape
    norms, tops = table.sizes(_norm), table.sizes(_largest)
    return Allowed(
        row_norm=table.bound(norms) + smallest * math.sqrt(max(1, width)),
        row_largest=table.bound(tops) + smallest,
        tensor_norm=float(table.bound(norms.whole())[0]) + smallest * math.sqrt(max(1, count * width)),
    )


def derivation(expected: Expected) -> Derivation:
    """The figures behind `allowed`, relative to the size of the tensor."""
    table = _Table(expected)
    whole = table.sizes(_norm).whole()
    size = float(whole.exact[0]) or 1.0
    return Derivation(
        output=expected.spec.name,
        claim=expected.precision,
        own_error=float(whole.own[0]) / size,
        conditioning=float(whole.moved[0]) / size,
        result_rounding=table.stored,
        accumulation=table.growth * table.accumulate,
        allowed=allowed(expected).tensor_norm / size,
        terms=expected.terms,
        not_judged=int(expected.exact.size - np.count_nonzero(expected.fit)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """How large the exact values, the reference's own error and the effect of moved inputs are, row by row."""

    exact: Array
    own: Array
    moved: Array

    def whole(self) -> _Sizes:
        """The same for all rows together."""
        return _Sizes(exact=_norm(self.exact[None]), own=_norm(self.own[None]), moved=_norm(self.moved[None]))


class _Table:
    """An expected output as a matrix of rows, with what cannot be judged set to zero."""

    def __init__(self, expected: Expected) -> None:
        axes, fit = expected.spec.row_axes, expected.fit
        self.exact = rows(np.where(fit, expected.exact, 0.0), axes)
        self.own = rows(np.where(fit, expected.working - expected.exact, 0.0), axes)
        self.moved = [rows(np.where(fit, sample - expected.exact, 0.0), axes) for sample in expected.samples]
        self.claimed = FORMATS[expected.precision].unit_roundoff
        self.stored = FORMATS[expected.spec.dtype].unit_roundoff
        self.accumulate = accumulator(expected.precision).unit_roundoff
        self.partial = math.sqrt(max(1, expected.terms)) if expected.ordered else 1.0
        self.growth = GROWTH * math.sqrt(max(1, expected.terms))
        self.smallest = max(
            FORMATS[expected.spec.dtype].smallest_normal, accumulator(expected.precision).smallest_normal
        )

    def sizes(self, measure: Callable[[Array], Array]) -> _Sizes:
        """Every row measured; over the samples, the root of the mean square."""
        squares = [measure(sample) ** 2 for sample in self.moved]
        return _Sizes(exact=measure(self.exact), own=measure(self.own), moved=np.sqrt(np.mean(squares, axis=0)))

    def bound(self, sizes: _Sizes) -> Array:
        """The formula at the top of this module, without its last line."""
        one = np.maximum(np.maximum(sizes.own, sizes.moved), self.stored * sizes.exact)
        conditioning = self.partial * np.maximum(sizes.exact, sizes.moved / self.claimed)
        bound: Array = SLACK * one + self.growth * self.accumulate * conditioning
        return bound


def _norm(matrix: Array) -> Array:
    # Scaled first: squares of very large or very small values leave the range of float64.
    top = _largest(matrix)
    safe = np.where(top > 0, top, 1.0)
    found: Array = top * np.sqrt(np.sum((matrix / safe[:, None]) ** 2, axis=1))
    return found


def _largest(matrix: Array) -> Array:
    found: Array = np.max(np.abs(matrix), axis=1, initial=0.0)
    return found
