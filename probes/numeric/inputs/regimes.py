"""Kinds of inputs that find faults: each regime is one way in which data can be unkind.

Covered: ordinary values, a continuum of scales, rows of very different size, ties, sorted, constant, sparse, single
spikes, cancelling pairs, powers of two, values below the normal range; for recurrences slow decay with weak writes and
extreme gates; ragged lengths with empty and single-element parts.
Not covered: data of a particular model.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from probes.numeric.judge.spec import Sizes, Spec, Tensor, size_of
from probes.numeric.precision import FORMATS, Array, is_float, read, rounded, stored

Fill = Callable[[np.random.Generator, tuple[int, ...], Tensor], Array]
ORDINARY = "ordinary"
ORDERED = frozenset({"sorted up", "sorted down", "constant"})
"""Regimes in which partial sums grow beyond the result, or every rounding goes the same way."""
SCALES = ("tiny", "small", "large", "huge")


def draw(spec: Spec, sizes: Sizes, regime: str, rng: np.random.Generator) -> tuple[Array, ...]:
    """All inputs for these sizes, as float64 or int64 values that their dtypes hold exactly."""
    return tuple(_draw(tensor, sizes, regime, rng) for tensor in spec.inputs)


def regimes(spec: Spec) -> tuple[str, ...]:
    """The regimes that change something for these inputs, ordinary first."""
    kinds = {tensor.kind for tensor in spec.inputs}
    names = list(_NORMAL) if kinds & {"normal", "positive"} else [ORDINARY]
    names += _GATED if "gate" in kinds or "strength" in kinds else ()
    names += _RAGGED if "lengths" in kinds else ()
    return tuple(name for name in dict.fromkeys(names) if name not in spec.skip_regimes)


def _draw(tensor: Tensor, sizes: Sizes, regime: str, rng: np.random.Generator) -> Array:
    shape = tensor.at(sizes)
    if not is_float(tensor.dtype):
        values = _whole(tensor, shape, sizes, regime, rng)
        return read(stored(values, tensor.dtype), tensor.dtype)
    if tensor.kind == "gate":
        values = _gate(regime, shape, rng)
    elif tensor.kind in ("strength", "probability"):
        values = _share(regime, shape, rng)
    else:
        values = _NORMAL.get(regime, _ordinary)(rng, shape, tensor) * tensor.scale
        values = np.abs(values) if tensor.kind == "positive" else values
    return rounded(values, tensor.dtype)


def _gate(regime: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Logarithms of decays: never above 0."""
    if regime == "slow decay, weak write":
        return -rng.uniform(0.0, 1e-3, shape)
    if regime == "extreme gates":
        return np.where(rng.random(shape) < 0.5, 0.0, -rng.uniform(5.0, 60.0, shape))
    return -rng.exponential(0.1, shape)


def _share(regime: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Values in [0, 1]."""
    if regime == "slow decay, weak write":
        return rng.uniform(0.0, 1e-2, shape)
    if regime == "extreme gates":
        return rng.integers(0, 2, shape).astype(np.float64)
    return rng.uniform(0.0, 1.0, shape)


def _whole(tensor: Tensor, shape: tuple[int, ...], sizes: Sizes, regime: str, rng: np.random.Generator) -> Array:
    bound = size_of(tensor.below, sizes) if tensor.below is not None else 2
    if tensor.kind == "lengths":
        return _offsets(shape, bound, regime, rng)
    if regime == "constant" and bound:
        return np.full(shape, rng.integers(0, bound))
    if tensor.kind in ("index", "mask"):
        return rng.integers(0, max(1, bound), shape)
    return rng.integers(-8, 9, shape)


def _offsets(shape: tuple[int, ...], total: int, regime: str, rng: np.random.Generator) -> Array:
    """Borders of ragged parts: from 0 to the total, never falling; some parts are empty, some have one element."""
    count = shape[0] - 1
    if regime == "one long part":
        inner = np.full(max(0, count - 1), total)
    elif regime == "many short parts":
        inner = np.minimum(np.arange(1, max(1, count)), total)
    else:
        inner = np.sort(rng.integers(0, total + 1, max(0, count - 1)))
    return np.concatenate([[0], inner, [total]])[: shape[0]]


def _ordinary(rng: np.random.Generator, shape: tuple[int, ...], _tensor: Tensor) -> Array:
    return rng.standard_normal(shape)


def _scaled(low: float, high: float) -> Fill:
    """One scale for the whole tensor, drawn evenly over its logarithm: no threshold is left unvisited for long."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...], tensor: Tensor) -> Array:
        values: Array = _ordinary(rng, shape, tensor) * 10.0 ** rng.uniform(low, high)
        return values

    return fill


def _mixed_rows(rng: np.random.Generator, shape: tuple[int, ...], tensor: Tensor) -> Array:
    scales = 10.0 ** rng.uniform(-3, 2, (*shape[:-1], 1)) if shape else 1.0
    return _ordinary(rng, shape, tensor) * scales


def _ties(rng: np.random.Generator, shape: tuple[int, ...], _tensor: Tensor) -> Array:
    return rng.integers(-2, 3, shape) * 0.5


def _sorted(step: int) -> Fill:
    def fill(rng: np.random.Generator, shape: tuple[int, ...], tensor: Tensor) -> Array:
        values = _ordinary(rng, shape, tensor)
        return np.sort(values, axis=-1)[..., ::step] if shape else values

    return fill


def _constant(rng: np.random.Generator, shape: tuple[int, ...], _tensor: Tensor) -> Array:
    return np.full(shape, rng.uniform(0.1, 2.0))


def _sparse(rng: np.random.Generator, shape: tuple[int, ...], tensor: Tensor) -> Array:
    return np.where(rng.random(shape) < 0.1, _ordinary(rng, shape, tensor), 0.0)


def _spikes(rng: np.random.Generator, shape: tuple[int, ...], tensor: Tensor) -> Array:
    values = _ordinary(rng, shape, tensor) * 0.01
    flat = values.reshape(-1)
    if flat.size:
        flat[rng.integers(0, flat.size, max(1, flat.size // 50))] = 30.0
    return values


def _cancelling(rng: np.random.Generator, shape: tuple[int, ...], tensor: Tensor) -> Array:
    values = _ordinary(rng, shape, tensor)
    if shape and shape[-1] > 1:
        half = shape[-1] // 2
        values[..., half : 2 * half] = -values[..., :half] * (1 + 1e-3 * rng.standard_normal((*shape[:-1], half)))
    return values


def _powers(rng: np.random.Generator, shape: tuple[int, ...], _tensor: Tensor) -> Array:
    return 2.0 ** rng.integers(-4, 5, shape) * (rng.integers(0, 2, shape) * 2 - 1)


def _denormal(rng: np.random.Generator, shape: tuple[int, ...], tensor: Tensor) -> Array:
    return _ordinary(rng, shape, tensor) * FORMATS[tensor.dtype].smallest_normal / 4 / tensor.scale


_NORMAL: dict[str, Fill] = {
    ORDINARY: _ordinary,
    "tiny": _scaled(-4, -2),
    "small": _scaled(-2, -0.3),
    "large": _scaled(0.3, 1),
    "huge": _scaled(1, 2),
    "rows of different size": _mixed_rows,
    "ties": _ties,
    "sorted up": _sorted(1),
    "sorted down": _sorted(-1),
    "constant": _constant,
    "sparse": _sparse,
    "spikes": _spikes,
    "cancelling": _cancelling,
    "powers of two": _powers,
    "denormal": _denormal,
}
_GATED = ("slow decay, weak write", "extreme gates")
_RAGGED = ("one long part", "many short parts")
