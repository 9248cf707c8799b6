"""An incremental reader of one HTTP/1.1 response, strict, with limits.

A response is framed by exactly one of: chunks, a content length, the end of the connection. Whatever leaves that open
(two lengths, a length beside chunks, another transfer coding, a line that is no header) is refused, because a client
that guesses where an answer ends measures a guess.
Covered: bytes in any pieces, interim responses, trailers, chunk extensions, responses without a body, keep-alive.
Not covered: HTTP/2, compressed bodies (`identity` is asked for; anything else is refused), obsolete line folding.
"""

from __future__ import annotations

import re
from enum import Enum
from http import HTTPStatus

HEAD_BYTES = 64 * 1024
HEADERS = 256
LINE_BYTES = 4096
TRAILER_BYTES = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n]*)?")
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_UNFIT = re.compile(rb"[\r\n\x00]")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t;][^\r\n]*)?\r\n")
"""No pattern here can backtrack in more than linear time: the bytes are the server's."""


class ProtocolError(Exception):
    """The peer does not speak HTTP/1.1 as far as this client understands it."""


class State(Enum):
    """What the next bytes are."""

    HEAD = "head"
    LENGTH = "length"
    UNTIL_CLOSE = "until close"
    SIZE = "chunk size"
    CHUNK = "chunk"
    CHUNK_END = "chunk end"
    TRAILER = "trailer"
    DONE = "done"


class ResponseReader:
    """Feed it what was received; it returns the body bytes among it."""

    __slots__ = ("_left", "_state", "_tail", "headers", "http_1_0", "leftover", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.http_1_0 = False
        self.leftover = b""
        self._state = State.HEAD
        self._tail = b""
        self._left = 0

    @property
    def complete(self) -> bool:
        """The response has been read to its end."""
        return self._state is State.DONE

    @property
    def began(self) -> bool:
        """The head has been read."""
        return self._state is not State.HEAD

    @property
    def reusable(self) -> bool:
        """The connection can carry another request."""
        said = self.headers.get("connection", "").lower()
        kept = "keep-alive" in said if self.http_1_0 else "close" not in said
        return self.complete and kept and not self.leftover and self._framed

    def feed(self, data: bytes) -> bytes:
        """The body bytes in `data`. Raises ProtocolError."""
        if self._state is State.SIZE and not self._tail:
            return self._chunks(data)
        if self._tail:
            data, self._tail = self._tail + data, b""
        return self._take(data)

    def _chunks(self, data: bytes) -> bytes:
        """The hot path: reads that are whole chunks. Whatever else there is goes the long way."""
        out: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            size = _SIZE.match(data, at)
            if size is None:
                break
            start = size.end()
            stop = start + int(size[1], 16)
            if stop == start or stop + 2 > end or data[stop : stop + 2] != b"\r\n":
                break
            if stop + 2 == end and not out:
                return data[start:stop]
            out.append(data[start:stop])
            at = stop + 2
        if at < end:
            out.append(self._take(data[at:]))
        return b"".join(out)

    def end(self) -> None:
        """The connection ended. Raises ProtocolError when the response is not complete."""
        if self._state is State.UNTIL_CLOSE:
            self._state = State.DONE
        elif self._state is not State.DONE:
            raise ProtocolError("the connection ended before the response did")

    @property
    def _framed(self) -> bool:
        """The end of the response was not the end of the connection."""
        coded = "chunked" in self.headers.get("transfer-encoding", "").lower()
        return coded or "content-length" in self.headers or not _has_body(self.status)

    def _take(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while data:
            if self._state is State.LENGTH or self._state is State.CHUNK:
                piece = data[: self._left]
                out.append(piece)
                self._left -= len(piece)
                data = data[len(piece) :]
                if not self._left:
                    self._state = State.DONE if self._state is State.LENGTH else State.CHUNK_END
            elif self._state is State.UNTIL_CLOSE:
                out.append(data)
                break
            elif self._state is State.DONE:
                self.leftover += data
                break
            else:
                rest = self._control(data)
                if rest is None:
                    self._tail = data
                    break
                data = rest
        return out[0] if len(out) == 1 else b"".join(out)

    def _control(self, data: bytes) -> bytes | None:
        """Take one piece of framing off the front; None when it is not complete yet."""
        if self._state is State.HEAD:
            return self._head(data)
        if self._state is State.SIZE:
            return self._size(data)
        if self._state is State.CHUNK_END:
            if len(data) < 2 and data == b"\r":
                return None
            if not data.startswith(b"\r\n"):
                raise ProtocolError("a chunk is longer than its size says")
            self._state = State.SIZE
            return data[2:]
        return self._trailer(data)

    def _head(self, data: bytes) -> bytes | None:
        end = data.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_BYTES:
            if len(data) > HEAD_BYTES:
                raise ProtocolError(f"the response's head is longer than {HEAD_BYTES} bytes")
            if not b"HTTP/1.".startswith(data[:7]):
                raise ProtocolError(f"not an HTTP/1.1 response: {data[:40]!r}")
            return None
        first, *lines = data[:end].split(b"\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise ProtocolError(f"not an HTTP/1.1 response: {first[:40]!r}")
        self.status, self.http_1_0 = int(status[2]), status[1] == b"0"
        self.headers = _headers(lines)
        rest = data[end + 4 :]
        if self.status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise ProtocolError("the server switched protocols")
        if self.status >= HTTPStatus.OK:
            self._frame()
        return rest

    def _frame(self) -> None:
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        encoding = self.headers.get("content-encoding", "identity").lower()
        if not _has_body(self.status):
            self._state = State.DONE
        elif encoding != "identity":
            raise ProtocolError(f"the body is encoded with {encoding}, identity was asked for")
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise ProtocolError(f"transfer coding {coding!r}{' beside a content length' if length else ''}")
            self._state = State.SIZE
        elif length is not None:
            self._left = _content_length(length)
            self._state = State.LENGTH if self._left else State.DONE
        else:
            self._state = State.UNTIL_CLOSE

    def _size(self, data: bytes) -> bytes | None:
        size = _SIZE.match(data)
        if size is None:
            if b"\r\n" in data[:LINE_BYTES] or len(data) >= LINE_BYTES:
                raise ProtocolError(f"not a chunk size: {data[:40]!r}")
            return None
        self._left = int(size[1], 16)
        self._state = State.CHUNK if self._left else State.TRAILER
        return data[size.end() :]

    def _trailer(self, data: bytes) -> bytes | None:
        """Trailers are read and ignored."""
        if data.startswith(b"\r\n"):
            self._state = State.DONE
            return data[2:]
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > TRAILER_BYTES:
                raise ProtocolError(f"trailers longer than {TRAILER_BYTES} bytes")
            return None
        self._state = State.DONE
        return data[end + 4 :]


def _headers(lines: list[bytes]) -> dict[str, str]:
    if len(lines) > HEADERS:
        raise ProtocolError(f"more than {HEADERS} header lines")
    found: dict[str, str] = {}
    for line in lines:
        raw_name, colon, raw_value = line.partition(b":")
        if not colon or _NAME.fullmatch(raw_name) is None or _UNFIT.search(raw_value):
            raise ProtocolError(f"not a header: {line[:40]!r}")
        name, value = raw_name.decode("ascii").lower(), raw_value.strip(b" \t").decode("latin-1")
        if name == "content-length" and found.get(name, value) != value:
            raise ProtocolError("two different content lengths")
        if name in found and name != "content-length":
            value = f"{found[name]}, {value}"
        found[name] = value
    return found


def _content_length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ProtocolError(f"not a content length: {text[:40]!r}")
    return int(text)


def _has_body(status: int) -> bool:
    return status >= HTTPStatus.OK and status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
