"""Rules that accept or refuse an output: the derived one, and the fixed ones that people write.

Covered: the derived rule (rows, tensor, ULP promise, NaN, infinities, whole numbers); allclose, relative Frobenius,
cosine and largest-error rules, so that their weakness can be shown.
Not covered: rules over distributions of errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from probes.numeric.precision import FORMATS, Array, is_float, ulp_distance
from probes.numeric.tolerance.derive import allowed
from probes.numeric.tolerance.expected import Expected, rows

Fault = Literal["value", "nan", "infinity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Why an output is refused: the first index that is wrong, and by how much of what was allowed."""

    fault: Fault
    output: str
    index: tuple[int, ...]
    got: float
    expected: float
    error: float
    allowed: float
    measure: str

    def __str__(self) -> str:
        place = f"{self.output}[{', '.join(map(str, self.index))}]" if self.index else self.output
        text = f"{place} is {self.got:.9g}, expected {self.expected:.9g}"
        return text if self.fault == "nan" else f"{text} ({self.measure} {self.error:.3g}, allowed {self.allowed:.3g})"


class Rule(Protocol):
    """Says what is wrong with an output, or None."""

    @property
    def name(self) -> str:
        """As people write it."""
        ...

    def refuse(self, expected: Expected, got: Array) -> Difference | None:
        """The first difference; None accepts."""
        ...


class DerivedRule:
    """The tolerance that `derive` gives. The only one that is used."""

    name = "derived"

    def refuse(self, expected: Expected, got: Array) -> Difference | None:
        """NaN and infinities first, then rows, tensor and the ULP promise."""
        if not is_float(expected.spec.dtype):
            return _whole_numbers(expected, got)
        return _special(expected, got) or _sizes(expected, got)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRule:
    """`allclose` with fixed numbers."""

    rtol: float
    atol: float

    @property
    def name(self) -> str:
        """As people write it."""
        return f"allclose(rtol={self.rtol:g}, atol={self.atol:g})"

    def refuse(self, expected: Expected, got: Array) -> Difference | None:
        """As numpy's, NaN equal to NaN."""
        with np.errstate(all="ignore"):
            ok = np.isclose(got, expected.exact, rtol=self.rtol, atol=self.atol, equal_nan=True)
        return _at(expected, got, ~ok, "error", self.atol)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrobeniusRule:
    """One relative error for the whole tensor."""

    most: float

    @property
    def name(self) -> str:
        """As people write it."""
        return f"relative Frobenius <= {self.most:g}"

    def refuse(self, expected: Expected, got: Array) -> Difference | None:
        """Norm of the error over norm of the tensor."""
        fit = expected.fit & np.isfinite(got)
        size = float(np.linalg.norm(expected.exact[fit])) or 1.0
        error = float(np.linalg.norm((got - expected.exact)[fit])) / size
        bad = ~np.isfinite(got) & expected.fit
        if not bad.any() and error <= self.most:
            return None
        return _at(expected, got, bad if bad.any() else got != expected.exact, "relative error", self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineRule:
    """Only the direction counts."""

    least: float

    @property
    def name(self) -> str:
        """As people write it."""
        return f"cosine >= {self.least:g}"

    def refuse(self, expected: Expected, got: Array) -> Difference | None:
        """Cosine of the angle between the flattened tensors."""
        a, b = np.where(expected.fit, expected.exact, 0.0).ravel(), np.where(expected.fit, got, 0.0).ravel()
        with np.errstate(all="ignore"):
            size = float(np.linalg.norm(a) * np.linalg.norm(b))
            cosine = float(a @ b) / size if size else float(not a.any() and not b.any())
        return None if cosine >= self.least else _at(expected, got, got != expected.exact, "cosine", self.least)


def _whole_numbers(expected: Expected, got: Array) -> Difference | None:
    """A whole number must be one that the reference gives for these inputs, or for inputs off by one rounding."""
    ok = (got == expected.exact) | (got == expected.working)
    for sample in expected.samples:
        ok |= got == sample
    return _at(expected, got, ~ok, "error", 0.0)


def _special(expected: Expected, got: Array) -> Difference | None:
    """NaN only where the reference has it; an infinity only where the reference or its overflow has it."""
    must = np.isfinite(expected.exact) & expected.fit
    if (bad := must & np.isnan(got)).any():
        return _at(expected, got, bad, "error", 0.0, "nan")
    if (bad := must & np.isinf(got)).any():
        return _at(expected, got, bad, "error", 0.0, "infinity")
    both = ~np.isfinite(expected.exact) & ~np.isfinite(expected.working)
    same = (got == expected.exact) | (np.isnan(got) & np.isnan(expected.exact))
    same |= (got == expected.working) | (np.isnan(got) & np.isnan(expected.working))
    if (bad := both & ~same).any():
        return _at(expected, got, bad, "error", 0.0, "nan" if np.isnan(expected.exact[bad]).any() else "infinity")
    return None


def _sizes(expected: Expected, got: Array) -> Difference | None:
    with np.errstate(all="ignore"):
        error = np.where(expected.fit, np.abs(got - expected.exact), 0.0)
    if not error.size:
        return None
    return _rows(expected, got, error) or _tensor(expected, got, error) or _promise(expected, got, error)


def _rows(expected: Expected, got: Array, error: Array) -> Difference | None:
    limit, matrix = allowed(expected), rows(error, expected.spec.row_axes)
    over = matrix > limit.row_largest[:, None]
    long = np.linalg.norm(matrix, axis=1) > limit.row_norm
    if not (over.any() or long.any()):
        return None
    row = int(np.argmax(over.any(axis=1) | long))
    if over[row].any():
        return _one(expected, got, row * matrix.shape[1] + int(np.argmax(over[row])), limit.row_largest[row])
    found = _one(expected, got, row * matrix.shape[1] + int(np.argmax(matrix[row])), limit.row_norm[row])
    return replace(found, measure="norm of the row's error", error=float(np.linalg.norm(matrix[row])))


def _tensor(expected: Expected, got: Array, error: Array) -> Difference | None:
    total, limit = float(np.linalg.norm(error)), allowed(expected).tensor_norm
    if total <= limit:
        return None
    found = _one(expected, got, int(np.argmax(error)), limit)
    return replace(found, measure="norm of the error", error=total)


def _promise(expected: Expected, got: Array, error: Array) -> Difference | None:
    promise = expected.spec.max_ulp
    if promise is None:
        return None
    far = np.where(expected.fit, ulp_distance(got, expected.exact, expected.spec.dtype), 0.0)
    far = np.where(error <= FORMATS[expected.spec.dtype].smallest_normal, 0.0, far)
    if not (far > promise).any():
        return None
    at = int(np.argmax(far > promise))
    return replace(_one(expected, got, at, promise), measure="ULP", error=float(far.ravel()[at]))


def _at(
    expected: Expected, got: Array, bad: Array, measure: str, limit: float, fault: Fault = "value"
) -> Difference | None:
    """A difference at the first bad element, or None when there is none."""
    if not bad.any():
        return None
    return replace(_one(expected, got, int(np.argmax(bad)), limit), measure=measure, fault=fault)


def _one(expected: Expected, got: Array, position: int, limit: float) -> Difference:
    """The difference at one element, counted in C order."""
    index = tuple(int(i) for i in np.unravel_index(position, got.shape))
    there, here = float(expected.exact[index]), float(got[index])
    return Difference(
        fault="value", output=expected.spec.name, index=index, got=here, expected=there,
        error=abs(here - there) if np.isfinite(here - there) else float("inf"), allowed=float(limit), measure="error",
    )  # fmt: skip
