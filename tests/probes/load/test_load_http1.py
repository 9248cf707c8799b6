"""The reader of HTTP/1.1 responses: any pieces give the same body, and what is open to interpretation is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.load.wire.http1 import HEAD_BYTES, ProtocolError, ResponseReader

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def read(*pieces: bytes) -> tuple[bytes, ResponseReader]:
    reader = ResponseReader()
    return b"".join(reader.feed(piece) for piece in pieces), reader


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + trailer + b"\r\n"


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.lists(st.integers(min_value=1, max_value=9), max_size=80),
    st.sampled_from([b"", b"X-Checksum: 1\r\n", b"A: b\r\nC: d\r\n"]),
)
def test_chunks_cut_anywhere_give_the_same_body(chunks: list[bytes], cuts: list[int], trailer: bytes) -> None:
    data = CHUNKED + chunked(*chunks, trailer=trailer)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    body, reader = read(*pieces, data[at:])
    assert body == b"".join(chunks)
    assert reader.complete
    assert reader.reusable


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=120))
def test_a_length_ends_the_body_exactly(content: bytes, cut: int) -> None:
    data = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
    body, reader = read(data[:cut], data[cut:])
    assert (body, reader.complete, reader.leftover) == (content, True, b"")


def test_without_either_the_connections_end_is_the_bodys() -> None:
    body, reader = read(HEAD + b"\r\nab", b"cd")
    assert (body, reader.complete) == (b"abcd", False)
    reader.end()
    assert reader.complete
    assert not reader.reusable


def test_a_body_that_looks_like_the_end_of_chunks_is_not_the_end() -> None:
    body, reader = read(CHUNKED, b"7\r\n0\r\n\r\n", b"ab\r\n")
    assert (body, reader.complete) == (b"0\r\n\r\nab", False)


def test_interim_responses_are_passed_over() -> None:
    body, reader = read(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + CHUNKED + chunked(b"hi")
    )
    assert (body, reader.status, reader.complete) == (b"hi", 200, True)


@pytest.mark.parametrize("status", [204, 304])
def test_some_responses_have_no_body(status: int) -> None:
    _, reader = read(b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n" % status)
    assert reader.complete
    assert reader.reusable


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nCONNECTION: Keep-Alive, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
    ],
)
def test_a_connection_is_kept_when_both_sides_may(head: bytes, kept: bool) -> None:
    _, reader = read(head + b"Content-Length: 2\r\n\r\nok")
    assert reader.reusable is kept


def test_bytes_behind_the_end_forbid_another_request() -> None:
    _, reader = read(CHUNKED + chunked(b"a") + b"HTTP/1.1 200 OK")
    assert reader.complete
    assert not reader.reusable


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        HEAD + b"Content-Length: +5\r\n\r\n",
        HEAD + b"Content-Length: 5, 5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\n",
        HEAD + b"no colon here\r\n\r\n",
        HEAD + b" Folded: line\r\n\r\n",
        HEAD + b"Bad Name: x\r\n\r\n",
        HEAD + b"X: a" + b"a" * HEAD_BYTES,
        HEAD + b"A: b\r\n" * 300 + b"\r\n",
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"1_0\r\n",
        CHUNKED + b"0x10\r\n",
        CHUNKED + b"fffffffffffffffffff\r\n",
        CHUNKED + b"2\r\nabc\r\n",
        CHUNKED + b"1" + b" " * 5000,
        CHUNKED + b"0\r\n" + b"A: b\r\n" * 5000,
    ],
    ids=lambda data: data[-30:].decode("latin-1"),
)
def test_what_is_no_clear_response_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(data)


def test_a_connection_that_ends_early_is_no_response() -> None:
    for data in (b"", HEAD, CHUNKED + b"5\r\nab", HEAD + b"Content-Length: 9\r\n\r\nab"):
        _, reader = read(data)
        with pytest.raises(ProtocolError):
            reader.end()


def test_hostile_white_space_costs_no_time() -> None:
    with pytest.raises(ProtocolError):
        read(HEAD + b"X:" + b" \t" * 30_000 + b"\x00\r\n\r\n")
    with pytest.raises(ProtocolError):
        read(CHUNKED + b"1;" + b" " * 500_000, b"x\r\n")
