from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.errors import LedgerError
from infra_agent.ledger.event import GENESIS, Event, decode, encode, seal

pytestmark = pytest.mark.requirement("L1")

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def sealed(**data: Any) -> Event:
    return seal(seq=3, prev="a" * 64, ts="2026-11-30T12:00:00.000000Z", kind="note", data=data)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=5))
def test_an_event_reads_back_as_it_was_stored(data):
    event = sealed(value=data)
    line = encode(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == event
    assert encode(decode(line)) == line


def test_a_line_is_the_canonical_json_of_the_whole_record():
    event = sealed(b=[1.5, 1e20, -0.0, None], a={"text": "é\u2028\n\x00", "z": True})
    assert encode(event) == rfc8785.dumps(asdict(event)) + b"\n"


def test_the_hash_covers_every_other_field_in_canonical_form():
    event = sealed(a=1, text="x")
    rest = {name: value for name, value in asdict(event).items() if name != "hash"}
    assert event.hash == hashlib.sha256(rfc8785.dumps(rest)).hexdigest()
    for changed in ({"seq": 4}, {"prev": GENESIS}, {"ts": ""}, {"kind": "notes"}, {"data": {"a": 2, "text": "x"}}):
        with pytest.raises(LedgerError, match="does not match its hash"):
            decode(encode(replace(event, **changed)))


def test_a_change_of_any_single_byte_is_refused():
    line = encode(sealed(text="plain é", value=1.25, flag=False, none=None, names=["a", "b"]))
    for offset in range(len(line) - 1):
        for bit in (1, 32):
            changed = bytearray(line)
            changed[offset] ^= bit
            with pytest.raises(LedgerError):
                decode(bytes(changed))


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        "lone \ud800 surrogate",
        {"\udfff": 1},
        2**53,
        {1: "a"},
        b"bytes",
        {1, 2},
        pytest.param(object(), id="an object"),
    ],
    ids=str,
)
def test_data_without_a_canonical_form_are_refused_with_the_events_name(value):
    with pytest.raises(LedgerError, match=r"event 3 \('note'\) has no canonical form"):
        sealed(value=[{"deep": value}])


def test_nesting_too_deep_to_read_is_refused_in_both_directions():
    nest: Any = 0
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(LedgerError):
        sealed(value=nest)
    with pytest.raises(LedgerError):
        decode(b'{"data":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}")


@pytest.mark.parametrize("number", [1e15, 2.0**53, 1e20, 1e21, 1.7976931348623157e308, 5e-324, -1e-7, 0.1 + 0.2])
def test_extreme_floats_survive(number):
    assert decode(encode(sealed(value=number))).data == {"value": number}


@pytest.mark.parametrize(
    "text", ["\u2028\u2029\x85\x0b\x0c\r\n", "\x00\x1f\x7f", "😀é", '"\\', "a" * 3_000_000], ids=len
)
def test_awkward_and_huge_texts_survive(text):
    line = encode(sealed(text=text))
    assert line.split(b"\n") == [line[:-1], b""]
    assert decode(line).data["text"] == text


def test_the_same_content_in_another_spelling_is_refused():
    event = sealed(text="é", value=1)
    fields = asdict(event)
    spellings = [
        json.dumps(fields, sort_keys=True).encode(),
        json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode(),
        encode(event).replace(b'"value":1', b'"value":1.0'),
        encode(event).replace(b'"value":1', b'"value":2,"value":1'),
        encode(event)[:-1] + b" \n",
        encode(event)[:-1].decode().encode("utf-16"),
        b"\xef\xbb\xbf" + encode(event),
    ]
    for line in spellings:
        with pytest.raises(LedgerError):
            decode(line)


@pytest.mark.parametrize(
    ("field", "value"),
    [("seq", "3"), ("seq", True), ("seq", 3.5), ("data", []), ("kind", 1), ("hash", "x"), ("prev", "A" * 64)],
)
def test_a_field_of_the_wrong_type_is_refused(field, value):
    with pytest.raises(LedgerError, match="wrong type"):
        decode(rfc8785.dumps({**asdict(sealed(a=1)), field: value}))


def test_a_missing_or_extra_field_and_plain_rubbish_are_refused():
    fields = asdict(sealed(a=1))
    for line in (
        b"",
        b"\n",
        b"null",
        b"\xff\xfe",
        b"[1]",
        b'{"a":NaN}',
        b"9" * 5000,
        rfc8785.dumps({**fields, "x": 1}),
    ):
        with pytest.raises(LedgerError):
            decode(line)
