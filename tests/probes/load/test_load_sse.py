"""Server-sent events survive any way of being cut into reads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from probes.load.sse import Event, SseParser

STREAM = (
    '\ufeff: comment\n\ndata: {"a": "日本"}\n\nevent: error\r\ndata: one\r\ndata: two\r\n\r\n'
    "id: 7\ndata:no space\rretry: 5\r\rdata: [DONE]\n\n"
).encode()
EVENTS = [Event("", '{"a": "日本"}'), Event("error", "one\ntwo"), Event("", "no space"), Event("", "[DONE]")]


def parsed(pieces: list[bytes]) -> list[Event]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


def test_one_read_may_hold_many_events() -> None:
    assert parsed([STREAM]) == EVENTS


def test_every_byte_may_come_alone() -> None:
    assert parsed([bytes([byte]) for byte in STREAM]) == EVENTS


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    assert parsed(pieces) == EVENTS


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    parser = SseParser()
    assert parser.feed(b"data: x\r\n") == []
    assert parser.feed(b"\r") == [Event("", "x")]
    assert parser.feed(b"\ndata: y\n\n") == [Event("", "y")]


def test_a_last_event_without_its_blank_line_is_not_lost() -> None:
    assert parsed([b"data: [DONE]"]) == [Event("", "[DONE]")]


def test_lines_without_data_make_no_event() -> None:
    assert parsed([b"event: ping\n\n: keep-alive\n\n\n\n"]) == []


def test_broken_utf_8_is_replaced_and_does_not_end_the_stream() -> None:
    assert parsed([b"data: a\xff\n\ndata: b\n\n"]) == [Event("", "a\ufffd"), Event("", "b")]
