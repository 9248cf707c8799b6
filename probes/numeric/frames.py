"""Length-prefixed JSON over a pipe, with a deadline on every byte.

Covered: one document each way; a peer that hangs, dies or sends nonsense ends in FrameError, never in a wait.
Not covered: what the documents mean.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Callable

from probes.base import Json

MAX_FRAME_BYTES = 64 << 20
_HEAD_BYTES = 4


class FrameError(Exception):
    """The peer is gone, too slow, or does not speak this protocol."""


def send(fd: int, document: Json, *, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Write one document to a non-blocking descriptor; FrameError when the peer does not take it in time."""
    body = json.dumps(document).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a request of {len(body)} bytes is larger than {MAX_FRAME_BYTES}")
    data, deadline = struct.pack(">I", len(body)) + body, clock() + timeout_s
    while data:
        _wait(fd, select.POLLOUT, deadline - clock())
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise FrameError("the peer closed the pipe") from error


def receive(fd: int, *, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Json:
    """Read one document; FrameError when none arrives in time."""
    deadline = clock() + timeout_s
    size = _size(_exactly(fd, _HEAD_BYTES, deadline, clock), MAX_FRAME_BYTES)
    return _document(_exactly(fd, size, deadline, clock))


def parse(data: bytes, *, max_bytes: int = MAX_FRAME_BYTES) -> Json:
    """The document of exactly one whole frame; FrameError for less, more, too large a one, or something else."""
    if not data:
        raise FrameError("no reply")
    if len(data) < _HEAD_BYTES:
        raise FrameError(f"a reply breaks off after {len(data)} bytes")
    size, body = _size(data[:_HEAD_BYTES], max_bytes), data[_HEAD_BYTES:]
    if len(body) < size:
        raise FrameError(f"a reply breaks off after {len(body)} of {size} bytes")
    if len(body) > size:
        raise FrameError(f"{len(body) - size} bytes follow the reply")
    return _document(body)


def _size(head: bytes, max_bytes: int) -> int:
    size = int(struct.unpack(">I", head)[0])
    if size > max_bytes:
        raise FrameError(f"a reply claims {size} bytes, more than {max_bytes}")
    return size


def _document(body: bytes) -> Json:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a reply is not JSON: {body[:80]!r}") from error


def _exactly(fd: int, size: int, deadline: float, clock: Callable[[], float]) -> bytes:
    parts: list[bytes] = []
    while size:
        _wait(fd, select.POLLIN, deadline - clock())
        part = os.read(fd, min(size, 1 << 16))
        if not part:
            raise FrameError("the peer closed the pipe")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _wait(fd: int, event: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(fd, event)
    if seconds <= 0 or not poll.poll(seconds * 1000):
        raise FrameError("no reply in time")
