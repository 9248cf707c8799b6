"""Makes a failing case small: fewer elements, then plain values, as long as it still fails (Hypothesis).

Covered: sizes down to the lowest that the spec names, values down to small whole numbers; a limit on time and calls.
Not covered: shrinking without Hypothesis (the text then says what to install); whole-number inputs keep their values.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from probes.numeric.inputs.regimes import ORDINARY, draw
from probes.numeric.judge.faults import CandidateFailure
from probes.numeric.judge.spec import Sizes, Spec
from probes.numeric.precision import Array, rounded
from probes.numeric.tolerance.strength import Trial

Fails = Callable[[tuple[Array, ...], Sizes, str], bool]
_CALLS = 60
_MOST_S = 4.0
_SHOWN = 16


def shrink(spec: Spec, trial: Trial, fails: Fails) -> str:
    """The smallest failing case that was found, in words. `fails(inputs, sizes, slot)` asks the candidate."""
    try:
        import hypothesis
    except ImportError:
        return "not made smaller: install infra-agent[numeric]"
    search = _Search(spec, trial, fails, hypothesis)
    try:
        sizes, inputs = search.smallest()
    except CandidateFailure as failure:
        return f"not made smaller: {failure.fault.kind.value} on the way"
    return _words(spec, sizes, inputs)


class _Search:
    """One search within one budget of calls and time."""

    def __init__(self, spec: Spec, trial: Trial, fails: Fails, hypothesis: Any) -> None:
        self._spec, self._trial, self._fails, self._hypothesis = spec, trial, fails, hypothesis
        self._until = time.monotonic() + _MOST_S
        self._slots = 0

    def smallest(self) -> tuple[Sizes, tuple[Array, ...]]:
        """Sizes first, then values."""
        given = self._hypothesis.strategies
        sizes, inputs = self._trial.sizes, self._trial.inputs
        lows = {name: self._low(name) for name in sizes}
        by_size = given.fixed_dictionaries(
            {name: given.integers(min(lows[name], high), high) for name, high in sizes.items()}
        )
        found = self._find(by_size, lambda tried: self._fail(self._cut(tried), tried))
        if found is not None:
            sizes, inputs = found, self._cut(found)
        count = sum(value.size for value in inputs if value.dtype.kind == "f")
        if 0 < count <= _SHOWN:
            plain = given.lists(given.integers(-3, 3), min_size=count, max_size=count)
            values = self._find(plain, lambda tried: self._fail(self._put(inputs, tried), sizes))
            inputs = inputs if values is None else self._put(inputs, values)
        return sizes, inputs

    def _low(self, name: str) -> int:
        least = min(sizes.get(name, 1) for sizes in self._spec.sizes)
        return min(least, self._spec.held_out.get(name, (least, least))[0])

    def _cut(self, sizes: Sizes) -> tuple[Array, ...]:
        """The failing inputs, as much of them as fits; new ordinary ones where a bound depends on a size."""
        if any(tensor.below is not None for tensor in self._spec.inputs):
            return draw(self._spec, sizes, ORDINARY, np.random.default_rng(0))
        pairs = zip(self._spec.inputs, self._trial.inputs, strict=True)
        return tuple(value[tuple(slice(0, n) for n in tensor.at(sizes))].copy() for tensor, value in pairs)

    def _put(self, inputs: tuple[Array, ...], values: list[int]) -> tuple[Array, ...]:
        """Whole numbers in the place of the float inputs; kinds with a domain get a part of it."""
        filled, at = [], 0
        for tensor, old in zip(self._spec.inputs, inputs, strict=True):
            if old.dtype.kind != "f":
                filled.append(old)
                continue
            part = np.asarray(values[at : at + old.size], dtype=np.float64).reshape(old.shape)
            at += old.size
            filled.append(rounded(_DOMAINS.get(tensor.kind, _any)(part), tensor.dtype))
        return tuple(filled)

    def _fail(self, inputs: tuple[Array, ...], sizes: Sizes) -> bool:
        if time.monotonic() > self._until:
            return False
        self._slots += 1
        return self._fails(inputs, sizes, f"small{self._slots}")

    def _find(self, strategy: Any, condition: Callable[[Any], bool]) -> Any:
        known: dict[str, bool] = {}

        def fails(tried: Any) -> bool:
            # Asked once each: when the time is up, what was seen before still holds.
            name = repr(tried)
            if name not in known:
                known[name] = condition(tried)
            return known[name]

        options = self._hypothesis.settings(
            max_examples=_CALLS, deadline=None, database=None, suppress_health_check=list(self._hypothesis.HealthCheck)
        )
        try:
            return self._hypothesis.find(strategy, fails, settings=options, random=random.Random(0))
        except self._hypothesis.errors.NoSuchExample:
            return None


def _any(values: Array) -> Array:
    return values


_DOMAINS: Mapping[str, Callable[[Array], Array]] = {
    "positive": np.abs,
    "gate": lambda values: -np.abs(values),
    "strength": lambda values: np.abs(values) / 3,
    "probability": lambda values: np.abs(values) / 3,
}


def _words(spec: Spec, sizes: Sizes, inputs: tuple[Array, ...]) -> str:
    parts = [f"{name}={value}" for name, value in sizes.items()]
    for tensor, value in zip(spec.inputs, inputs, strict=True):
        if value.size <= _SHOWN:
            parts.append(f"{tensor.name}={np.array2string(value, separator=', ', precision=6).replace(chr(10), '')}")
    return ", ".join(parts)
