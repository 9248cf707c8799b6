"""Broken outputs, made from an honest one, that any oracle worth its name refuses.

Covered: zero, scaled, negated, moved and repeated rows, rows and halves left out, one element off, constants, NaN,
another precision than promised, an input that was ignored or stale, a history that was cut. Each output on its own,
the others honest: the hardest kind to notice.
Not covered: faults that need a particular engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from probes.numeric.judge.spec import Sizes, Spec
from probes.numeric.precision import FORMATS, Array, is_float, rounded
from probes.numeric.tolerance.expected import Expected, Reference, ReferenceFailure, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A set of outputs of which one is broken. `name` says what was done, and to which output."""

    name: str
    outputs: tuple[Array, ...]


def mutants(
    reference: Reference, spec: Spec, expected: Sequence[Expected], inputs: Sequence[Array], sizes: Sizes
) -> Iterator[Mutant]:
    """Every mutant of these outputs that differs from the honest ones."""
    honest = tuple(each.working for each in expected)
    for name, at, changed in (*_of_outputs(expected), *_of_inputs(reference, spec, inputs, sizes)):
        if changed.shape == honest[at].shape and not np.array_equal(changed, honest[at], equal_nan=True):
            yield Mutant(name=f"{name} ({expected[at].spec.name})", outputs=(*honest[:at], changed, *honest[at + 1 :]))


def _of_outputs(expected: Sequence[Expected]) -> Iterator[tuple[str, int, Array]]:
    for at, each in enumerate(expected):
        if not each.working.size:
            continue
        if not is_float(each.spec.dtype):
            yield from ((name, at, change(each)) for name, change in _WHOLE.items())
            continue
        for name, change in (_WHOLE | _FLOAT).items():
            yield name, at, rounded(change(each), each.spec.dtype)
        for coarse in _coarser(each):
            yield f"rounded to {coarse}", at, rounded(each.working, coarse)


def _of_inputs(
    reference: Reference, spec: Spec, inputs: Sequence[Array], sizes: Sizes
) -> Iterator[tuple[str, int, Array]]:
    """What comes out when the function reads its inputs wrongly."""
    for name, changed in _wrong_inputs(spec, inputs, sizes):
        try:
            outputs = reference.as_stored(reference.values(changed, sizes, "float64"))
        except ReferenceFailure:
            continue
        yield from ((name, at, output) for at, output in enumerate(outputs))


def _wrong_inputs(spec: Spec, inputs: Sequence[Array], sizes: Sizes) -> Iterator[tuple[str, list[Array]]]:
    floats = [at for at, value in enumerate(inputs) if value.dtype.kind == "f" and value.size > 1]
    for at in floats:
        stale = [*inputs[:at], np.roll(inputs[at].ravel(), 1).reshape(inputs[at].shape), *inputs[at + 1 :]]
        yield f"{spec.inputs[at].name} read one element late", stale
    for coarse in (kind for kind in ("tf32", "bfloat16") if _tighter(spec.precision, kind)):
        yield f"inputs rounded to {coarse}", [rounded(v, coarse) if v.dtype.kind == "f" else v for v in inputs]
    if spec.history is not None and sizes[spec.history] > 1:
        axes = {at: _axis_of(spec, at) for at in floats}
        if any(axis is not None for axis in axes.values()):
            yield "history cut", [_cut(v, axes.get(at), sizes[spec.history] // 4) for at, v in enumerate(inputs)]


def _axis_of(spec: Spec, at: int) -> int | None:
    return next((axis for axis, word in enumerate(spec.inputs[at].shape) if word == spec.history), None)


def _cut(value: Array, axis: int | None, count: int) -> Array:
    """The first elements along the history set to zero."""
    if axis is None:
        return value
    cut = value.copy()
    cut[(slice(None),) * axis + (slice(0, max(1, count)),)] = 0
    return cut


def _coarser(expected: Expected) -> list[str]:
    return [kind for kind in ("tf32", "bfloat16", "float16") if _tighter(expected.precision, kind)]


def _tighter(claim: str, other: str) -> bool:
    """Whether the claim promises clearly more than the other format can hold: more than the slack takes up."""
    return FORMATS[claim].digits >= FORMATS[other].digits + 6


def _rows_changed(change: Callable[[Array], Array]) -> Callable[[Expected], Array]:
    """A change of the matrix of rows; where every element is its own row, of the elements in turn."""

    def apply(expected: Expected) -> Array:
        matrix = rows(expected.working, expected.spec.row_axes).copy()
        return change(matrix).reshape(expected.working.shape)

    return apply


def _without(part: slice) -> Callable[[Expected], Array]:
    def clear(matrix: Array) -> Array:
        matrix[part] = 0
        return matrix

    return _rows_changed(clear)


def _right_half_cleared(matrix: Array) -> Array:
    matrix[:, matrix.shape[1] - matrix.shape[1] // 2 :] = 0
    return matrix


def _repeated(matrix: Array) -> Array:
    matrix[:] = matrix[:1]
    return matrix


def _largest_changed(factor: float) -> Callable[[Expected], Array]:
    """One element of the array, the one of the largest size that can be judged, is off."""

    def apply(expected: Expected) -> Array:
        changed = expected.working.copy()
        size = np.where(expected.fit, np.abs(changed), -1.0)
        at = np.unravel_index(int(np.argmax(size)), size.shape)
        changed[at] = changed[at] * factor if np.isfinite(factor) else factor
        return changed

    return apply


def _mean(expected: Expected) -> Array:
    fit = expected.fit
    return np.full_like(expected.working, expected.working[fit].mean() if fit.any() else 0.0)


_WHOLE: dict[str, Callable[[Expected], Array]] = {
    "zero": lambda e: np.zeros_like(e.working),
    "negated": lambda e: -e.working,
    "rows permuted": _rows_changed(lambda matrix: np.roll(matrix, 1, axis=0)),
    "elements moved by one": lambda e: np.roll(e.working.ravel(), 1).reshape(e.working.shape),
    "reversed": lambda e: e.working.ravel()[::-1].reshape(e.working.shape),
    "last row zeroed": _without(slice(-1, None)),
    "first row zeroed": _without(slice(0, 1)),
    "first row repeated": _rows_changed(_repeated),
}
_FLOAT: dict[str, Callable[[Expected], Array]] = {
    "x 0.5": lambda e: e.working * 0.5,
    "x 1.5": lambda e: e.working * 1.5,
    "absolute value": lambda e: np.abs(e.working),
    "right half of each row zeroed": _rows_changed(_right_half_cleared),
    "the mean everywhere": _mean,
    "largest element x 1.5": _largest_changed(1.5),
    "largest element negated": _largest_changed(-1.0),
    "one NaN": _largest_changed(float("nan")),
    "one infinity": _largest_changed(float("inf")),
}
