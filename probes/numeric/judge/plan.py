"""Which inputs a candidate is given, and in which order: drawn after it was loaded, so that it cannot prepare.

Covered: every checked size, held-out sizes, fresh content in the same place and in new places, one element changed,
every regime, the first size again at the end; the middle in random order, so that calls cannot be told by counting.
Not covered: how many calls a slow candidate can afford (the spec's limits end those).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from probes.numeric.inputs.regimes import ORDERED, ORDINARY, SCALES, draw, regimes
from probes.numeric.judge.spec import Sizes, Spec
from probes.numeric.precision import Array, is_float, rounded
from probes.numeric.tolerance.expected import Reference
from probes.numeric.tolerance.strength import Trial

_HELD_OUT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call to come. Cases with the same `slot` find their content at the same addresses."""

    slot: str
    trial: Trial


def cases(spec: Spec, reference: Reference, rng: np.random.Generator) -> list[Case]:
    """All cases, with what the reference says about each."""
    opening = [_case(spec, reference, f"fixed{at}", sizes, ORDINARY, rng) for at, sizes in enumerate(spec.sizes)]
    again = [_case(spec, reference, "fixed0", spec.sizes[0], ORDINARY, rng) for _ in range(2)]
    middle = [*again, *_regimes(spec, reference, rng), *_held_out(spec, reference, rng)]
    order = [middle[at] for at in rng.permutation(len(middle))]
    nudged = list(_nudged(spec, reference, opening[0], rng))
    closing = _case(spec, reference, "fixed0", spec.sizes[0], ORDINARY, rng)
    return [*opening, *order, *nudged, closing]


def one_case(spec: Spec, reference: Reference, slot: str, sizes: Sizes, rng: np.random.Generator) -> Case:
    """An ordinary case."""
    return _case(spec, reference, slot, sizes, ORDINARY, rng)


def make_trial(
    spec: Spec, reference: Reference, sizes: Sizes, name: str, inputs: tuple[Array, ...], rng: np.random.Generator,
    *, ordered: bool = False,
) -> Trial:  # fmt: skip
    """Inputs with what the reference says about them."""
    return Trial(
        name=name,
        sizes=sizes,
        inputs=inputs,
        expected=reference.expect(inputs, sizes, rng, ordered=ordered),
        rewrite=reference.rewrite(inputs, sizes, rng),
    )


def _case(
    spec: Spec, reference: Reference, slot: str, sizes: Sizes, regime: str, rng: np.random.Generator, what: str = ""
) -> Case:
    name = f"{', '.join(f'{k}={v}' for k, v in sizes.items())}: {regime}{what}"
    inputs = draw(spec, sizes, regime, rng)
    trial = make_trial(spec, reference, sizes, name, inputs, rng, ordered=regime in ORDERED)
    return Case(slot=slot, trial=trial)


def _regimes(spec: Spec, reference: Reference, rng: np.random.Generator) -> Iterator[Case]:
    names = [name for name in regimes(spec) if name != ORDINARY]
    names += [name for name in names if name in SCALES]
    for number, regime in enumerate(names):
        at = number % len(spec.sizes)
        same = number % 3 < 2
        yield _case(spec, reference, f"fixed{at}" if same else f"new{number}", spec.sizes[at], regime, rng)


def _held_out(spec: Spec, reference: Reference, rng: np.random.Generator) -> Iterator[Case]:
    """Sizes drawn from the ranges; the ends of the ranges are among them."""
    if not spec.held_out:
        return
    for number in range(_HELD_OUT):
        sizes = dict(spec.sizes[number % len(spec.sizes)])
        for name, (low, high) in spec.held_out.items():
            ends = {0: high, 1: low}
            sizes[name] = ends.get(number, int(rng.integers(low, high + 1)))
        regime = ORDINARY if number < _HELD_OUT - 1 else regimes(spec)[-1]
        yield _case(spec, reference, f"held{number}", sizes, regime, rng, ", held-out size")


def _nudged(spec: Spec, reference: Reference, case: Case, rng: np.random.Generator) -> Iterator[Case]:
    """The first inputs, then the same but for one element of each float input, twice: in the same place."""
    values = draw(spec, case.trial.sizes, ORDINARY, rng)
    for number in range(3):
        trial = make_trial(spec, reference, case.trial.sizes, f"one element changed, {number}", values, rng)
        yield Case(slot="fixed0", trial=trial)
        values = tuple(_nudge(v, t.dtype, rng) for v, t in zip(values, spec.inputs, strict=True))


def _nudge(value: Array, dtype: str, rng: np.random.Generator) -> Array:
    if not is_float(dtype) or not value.size:
        return value
    changed = value.copy()
    at = int(rng.integers(0, value.size))
    # Halved or made smaller: stays inside every domain that a value can have.
    changed.ravel()[at] = changed.ravel()[at] * 0.25
    return rounded(changed, dtype)
