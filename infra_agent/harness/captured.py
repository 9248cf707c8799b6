"""What comes out of a command's pipes: the first and the last bytes of each stream, and how many were let go.

Covered: streams of any length in memory of a fixed size, bytes that are no text.
Not covered: what the bytes mean.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

from infra_agent.harness.tail import Tail
from infra_agent.harness.text import clean_lines
from infra_agent.redact.masker import NO_SECRETS, Masker

_LEAST_FD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One output stream: its first and its last bytes as they came, and how many were dropped between them."""

    head: bytes = b""
    tail: bytes = b""
    dropped_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Length of the stream as the command wrote it."""
        return len(self.head) + self.dropped_bytes + len(self.tail)

    def text(self) -> str:
        """All that was kept, decoded; a line in the middle counts what was not."""
        gap = f"\n... {self.dropped_bytes} bytes dropped ...\n".encode() if self.dropped_bytes else b""
        return (self.head + gap + self.tail).decode("utf-8", "replace")

    def lines(self, count: int, masker: Masker = NO_SECRETS) -> tuple[str, ...]:
        """The last lines, safe to show."""
        return clean_lines(self.head + (b"\n" if self.dropped_bytes else b"") + self.tail, count, masker)


class Stream:
    """Collects one stream as it arrives: up to `keep_bytes` of its head and as much of its tail."""

    def __init__(self, keep_bytes: int) -> None:
        self._keep_bytes = keep_bytes
        self._tail = Tail(keep_bytes)
        self.head = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Append what was read."""
        room = self._keep_bytes - len(self.head)
        self.head += data[:room]
        if len(data) > room:
            self._tail.add(data[room:])
        self.total_bytes += len(data)

    def captured(self) -> Captured:
        """What is kept so far."""
        return Captured(head=bytes(self.head), tail=self._tail.bytes(), dropped_bytes=self._tail.dropped_bytes)


def high_pipe(opened: set[int]) -> tuple[int, int]:
    """A pipe whose descriptors lie above those that a command is given; both are noted in `opened`."""
    low = os.pipe()
    try:
        high = (
            fcntl.fcntl(low[0], fcntl.F_DUPFD_CLOEXEC, _LEAST_FD),
            fcntl.fcntl(low[1], fcntl.F_DUPFD_CLOEXEC, _LEAST_FD),
        )
    finally:
        for fd in low:
            os.close(fd)
    opened.update(high)
    return high
