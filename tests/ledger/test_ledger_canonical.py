"""The quick canonical form is the canonical form: byte by byte that of the reference package, on any value."""

from __future__ import annotations

import enum
import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from infra_agent.ledger import canonical

pytestmark = pytest.mark.requirement("L1")

numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["1e-7", "3e+16", "1234567890123456.0"])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(texts, inner),
    max_leaves=30,
)


class Colour(enum.StrEnum):
    RED = "r\u00e9d"


class Count(enum.IntEnum):
    TWO = 2


@settings(max_examples=600, deadline=None)
@given(values)
@example({"\U0001f600": 1, "\ufb33": 2, "a": 3})
@example([1e-5, 9.99e-5, 1e-4, 1e-6, 1e-7, 1e15, 1e16, 1e20, 1e21, 5e-324, 2.0**53, -(2.0**53), 2.0**53 + 2])
@example([0.0, -0.0, 1.0, -1.0, 600.0, 0.1, 123456789.25, 9007199254740994.0, 1234567890123456.0])
@example(['\x00\x1f\x7f\u2028\u2029\\"/\b\f\n\r\t', "\u00e9\U0001f600"])
@example({"": {"": [[], {}, ()]}})
def test_it_is_the_reference_byte_for_byte(value: Any) -> None:
    assert canonical.dumps(value) == rfc8785.dumps(value)


@settings(max_examples=300, deadline=None)
@given(values)
def test_the_plain_form_is_what_the_bytes_read_back_as(value: Any) -> None:
    def number(text: str) -> int | float:
        return int(text) if abs(int(text)) < 2**53 else float(text)

    again = json.loads(canonical.dumps(value), parse_int=number)
    assert repr(canonical.canonical(value).value) == repr(again)
    assert canonical.dumps(again) == canonical.dumps(value)


@settings(max_examples=1000, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(1e-7, 1e-3) | st.floats(1e14, 1e22))
def test_every_float_is_spelled_as_the_reference_spells_it(value: float) -> None:
    assert canonical.dumps([value, -value]) == rfc8785.dumps([value, -value])


def test_subclasses_of_plain_types_are_those_types() -> None:
    import numpy as np

    value = {"enum": Colour.RED, "count": Count.TWO, "float": np.float64(0.25), "whole": np.float64(3.0)}
    assert canonical.dumps(value) == rfc8785.dumps(value)
    assert canonical.canonical(value).value == {"count": 2, "enum": "r\u00e9d", "float": 0.25, "whole": 3}
    assert type(canonical.canonical(Colour.RED).value) is str


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**53,
        -(2**53),
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 1},
        {1, 2},
        b"x",
        object(),
    ],
)
def test_what_has_no_canonical_form_is_refused_here_and_there(value: Any) -> None:
    for form in (canonical.dumps, rfc8785.dumps):
        with pytest.raises(ValueError):
            form([value])


def test_nesting_without_end_is_an_error_not_a_crash() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        canonical.dumps(deep)
