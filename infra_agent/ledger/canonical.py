"""Canonical JSON (RFC 8785), several times faster than the `rfc8785` package for what events hold, and equal to it.

The standard library's encoder is written in C and spells almost everything the canonical way. What it spells otherwise,
very small and very large floats, is left to `rfc8785`; tests compare the two byte by byte on any value.

Covered: dictionaries with text keys, lists, tuples, text, numbers, booleans, None, and their subclasses.
Not covered: anything else has no canonical form, nor have NaN, infinities, lone surrogates, and whole numbers that a
double cannot hold exactly.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import rfc8785

SAFE_INT = 2**53 - 1
_SMALLEST_USUAL = 1e-4
"""Below it Python writes an exponent where the canonical form has none yet."""
_BASES: tuple[type[Any], ...] = (int, float, dict, list, tuple)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


class Canonical(NamedTuple):
    """A value as it reads back (keys in order, lists for tuples, 600 for 600.0), and its bytes."""

    value: Any
    data: bytes


def canonical(value: Any) -> Canonical:
    """Both forms; ValueError or RecursionError for a value that has none."""
    unusual: list[float] = []
    plain = _plain(value, unusual)
    return Canonical(plain, bytes(rfc8785.dumps(plain)) if unusual else _ENCODER.encode(plain).encode("utf-8"))


def dumps(value: Any) -> bytes:
    """The canonical bytes alone."""
    return canonical(value).data


def _plain(value: Any, unusual: list[float]) -> Any:
    """The value as it reads back. `unusual` collects floats that the encoder would spell otherwise."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is dict:
        return {key: _plain(value[key], unusual) for key in _in_order(value)}
    if kind is float:
        return _float(value, unusual)
    if kind is int:
        return _int(value)
    if kind is list or kind is tuple:
        return [_plain(each, unusual) for each in value]
    return _of_a_subclass(value, unusual)


def _of_a_subclass(value: Any, unusual: list[float]) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    for base in _BASES:
        if isinstance(value, base):
            return _plain(base(value), unusual)
    raise ValueError(f"{type(value).__name__} has no canonical form")


def _in_order(value: dict[Any, Any]) -> list[str]:
    """Keys in the order of UTF-16, which differs from Python's beyond ASCII only."""
    try:
        ascii_only = "".join(value).isascii()
    except TypeError:
        raise ValueError("a key is not text") from None
    return sorted(value) if ascii_only else sorted(value, key=_utf16)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16be")


def _int(value: int) -> int:
    if not -SAFE_INT <= value <= SAFE_INT:
        raise ValueError(f"{value} exceeds what a double holds exactly")
    return value


def _float(value: float, unusual: list[float]) -> int | float:
    if value.is_integer():
        if -SAFE_INT <= value <= SAFE_INT:
            return int(value)
        unusual.append(value)
    elif -_SMALLEST_USUAL < value < _SMALLEST_USUAL or value - value != 0.0:
        unusual.append(value)
    return value
