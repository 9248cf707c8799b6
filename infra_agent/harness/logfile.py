"""A log that stays small however much is written: the first part goes to disk, the last part is kept in memory.

Covered: bounded disk and memory, a count of what was dropped, the newest lines at any time, a disk that is full (what
cannot be written counts as dropped, and the engine goes on); secrets are masked before anything is kept.
Not covered: a harness killed after the first part is full loses the last part.
"""

from __future__ import annotations

from pathlib import Path

from infra_agent.harness.tail import Tail
from infra_agent.redact.masker import NO_SECRETS, Masker
from infra_agent.redact.stream import MaskedStream

HEAD_BYTES = 16 * 1024 * 1024
TAIL_BYTES = 4 * 1024 * 1024
_RECENT_BYTES = 64 * 1024


class BoundedLog:
    """Append-only log of at most `head_bytes + tail_bytes` (plus one line that counts the bytes dropped between)."""

    def __init__(
        self, path: Path, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES, masker: Masker = NO_SECRETS
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("wb", buffering=0)
        self._head_left = head_bytes
        self._tail = Tail(tail_bytes)
        self._recent = b""
        self._masked = MaskedStream(masker)
        self._unwritten_bytes = 0

    @property
    def dropped_bytes(self) -> int:
        """Output that was not kept."""
        return self._tail.dropped_bytes + self._unwritten_bytes

    def write(self, data: bytes) -> None:
        """Append output as it was read; the unfinished last line may be kept back until its end is known.

        A disk that refuses it costs the bytes, never the engine.
        """
        self._append(self._masked.feed(data))

    def _append(self, data: bytes) -> None:
        head, rest = data[: self._head_left], data[self._head_left :]
        if head:
            self._put(head)
            self._head_left -= len(head)
        if rest:
            self._tail.add(rest)
        self._recent = (self._recent + data)[-_RECENT_BYTES:]

    def recent(self) -> bytes:
        """The newest output, at most 64 KiB."""
        return (self._recent + self._masked.held())[-_RECENT_BYTES:]

    def close(self) -> None:
        """Write the kept last part, with the count of what is missing before it."""
        if self._file.closed:
            return
        self._append(self._masked.flush())
        if self.dropped_bytes:
            self._put(f"\n... {self.dropped_bytes} bytes dropped ...\n".encode(), counted=False)
        for chunk in self._tail:
            self._put(chunk)
        self._file.close()

    def _put(self, data: bytes, *, counted: bool = True) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._unwritten_bytes += len(rest) if counted else 0
