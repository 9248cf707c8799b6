"""Masks a stream of bytes that comes in pieces: a secret cut in two by the edge of a read is still found.

Covered: whole lines go on at once; an unfinished line is held back only as far as a secret could begin in it.
Not covered: a secret broken over two lines by whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from infra_agent.redact.masker import Masker

CHUNK_BYTES = 1 << 20


class MaskedStream:
    """Feed it pieces, write what it returns, and `flush` at the end."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be passed on now."""
        if not self._masker:
            return data
        # Whole secrets are masked now; only one that is cut off at the end can still become one.
        data = self._masker.data(self._held + data)
        end = data.rfind(b"\n") + 1
        if len(data) - end > 2 * self._masker.longest_bytes:
            end = len(data) - self._masker.longest_bytes
        self._held = data[end:]
        return data[:end]

    def flush(self) -> bytes:
        """What is still held back."""
        held, self._held = self._held, b""
        return self._masker.data(held)

    def held(self) -> bytes:
        """What is held back, masked, without letting go of it."""
        return self._masker.data(self._held)


def masked_chunks(source: BinaryIO, masker: Masker) -> Iterator[bytes]:
    """A file's bytes, masked, in pieces."""
    stream = MaskedStream(masker)
    while chunk := source.read(CHUNK_BYTES):
        yield stream.feed(chunk)
    yield stream.flush()
