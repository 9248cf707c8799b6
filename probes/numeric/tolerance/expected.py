"""What a reference says about one set of inputs: the exact values, and how far honest arithmetic strays from them.

Covered: float64 values; the reference's own error in the working format; what roundings of the inputs alone do
(so a badly conditioned row is given what its condition costs, and no more).
Not covered: references that are wrong themselves; they are trusted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probes.numeric.judge.spec import Result, Sizes, Spec
from probes.numeric.precision import FORMATS, Array, accumulator, is_float, rounded

SAMPLES = 8
Function = Callable[..., Any]


class ReferenceFailure(Exception):
    """The reference raised, or gave something else than its spec says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One output. `working`: the reference's value in the working format; `samples`: float64 results for inputs that
    were moved by one rounding each. `fit`: where exact and working values are finite and can be judged at all.
    `ordered`: terms lie in an order in which partial sums grow as large as the sum of all magnitudes.
    """

    spec: Result
    precision: str
    terms: int
    exact: Array
    working: Array
    samples: tuple[Array, ...]
    ordered: bool = False

    @property
    def fit(self) -> Array:
        """Elements that can be judged by size."""
        if not is_float(self.spec.dtype):
            return np.ones(self.exact.shape, dtype=bool)
        found = np.isfinite(self.exact) & np.isfinite(self.working)
        for sample in self.samples:
            found &= np.isfinite(sample)
        return found & (np.abs(np.where(found, self.exact, 0.0)) <= FORMATS[self.spec.dtype].largest)


class Reference:
    """A reference function and the spec that it fulfils. It is called with float64 or float32 arrays and must keep
    their type, so that its own error can be seen.
    """

    def __init__(self, function: Function, spec: Spec) -> None:
        self._function = function
        self._spec = spec

    def expect(
        self, inputs: Sequence[Array], sizes: Sizes, rng: np.random.Generator, *, ordered: bool = False
    ) -> tuple[Expected, ...]:
        """Everything about one set of inputs (float64 and int64 arrays that the stored dtypes can hold)."""
        precision = self._spec.precision
        exact = self.values(inputs, sizes, "float64")
        working = self.values(inputs, sizes, accumulator(precision).name)
        moved = [self.values(self._moved(inputs, precision, rng), sizes, "float64") for _ in range(SAMPLES)]
        return tuple(
            Expected(
                spec=result,
                precision=precision,
                terms=self._spec.terms(sizes),
                exact=exact[at],
                working=rounded(working[at], result.dtype) if is_float(result.dtype) else working[at],
                samples=tuple(sample[at] for sample in moved),
                ordered=ordered,
            )
            for at, result in enumerate(self._spec.outputs)
        )

    def rewrite(self, inputs: Sequence[Array], sizes: Sizes, rng: np.random.Generator) -> tuple[Array, ...]:
        """What an honest rewrite may give: the working format, on inputs that are off by one rounding.

        With whole-number outputs it is the exact result: a moved input decides ties that no rewrite may decide anew.
        """
        precision = self._spec.precision
        if not all(is_float(result.dtype) for result in self._spec.outputs):
            return self.as_stored(self.values(inputs, sizes, "float64"))
        found = self.values(self._moved(inputs, precision, rng), sizes, accumulator(precision).name)
        return self.as_stored(found)

    def as_stored(self, values: Sequence[Array]) -> tuple[Array, ...]:
        """Outputs rounded to their dtypes."""
        pairs = zip(values, self._spec.outputs, strict=True)
        return tuple(rounded(value, spec.dtype) if is_float(spec.dtype) else value for value, spec in pairs)

    def values(self, inputs: Sequence[Array], sizes: Sizes, arithmetic: str) -> tuple[Array, ...]:
        """The outputs, computed in float64 or float32 and given as float64 (or int64)."""
        kind = np.float64 if arithmetic == "float64" else np.float32
        given = [value.astype(kind) if value.dtype.kind == "f" else value.copy() for value in inputs]
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self._function(*given, **self._spec.constants)
        except Exception as error:
            raise ReferenceFailure(f"the reference raised {type(error).__name__}: {error}") from error
        outputs = found if isinstance(found, tuple) else (found,)
        if len(outputs) != len(self._spec.outputs):
            raise ReferenceFailure(f"the reference gives {len(outputs)} outputs, the spec {len(self._spec.outputs)}")
        return tuple(_output(value, spec, sizes) for value, spec in zip(outputs, self._spec.outputs, strict=True))

    def _moved(self, inputs: Sequence[Array], precision: str, rng: np.random.Generator) -> list[Array]:
        kind = FORMATS[precision]
        return [_moved(value, kind.unit_roundoff, kind.smallest_normal, rng) for value in inputs]


def rows(values: Array, axes: int) -> Array:
    """The array as a matrix with one row per vector."""
    width = math.prod(values.shape[values.ndim - axes :]) if axes else 1
    return values.reshape(-1, width) if values.size else values.reshape(0, max(1, width))


def _moved(value: Array, unit: float, smallest: float, rng: np.random.Generator) -> Array:
    if value.dtype.kind != "f":
        return value
    signs, nudges = (rng.integers(0, 2, value.shape) * 2 - 1 for _ in range(2))
    with np.errstate(all="ignore"):
        moved: Array = value + value * (signs * unit) + np.where(value == 0.0, 0.0, nudges * smallest)
    return moved


def _output(value: object, spec: Result, sizes: Mapping[str, int]) -> Array:
    array = np.asarray(value)
    if array.shape != spec.at(sizes):
        raise ReferenceFailure(f"the reference gives {spec.name} as {array.shape}, the spec says {spec.at(sizes)}")
    return array.astype(np.float64 if is_float(spec.dtype) else np.int64)
