"""The last bytes of a stream of any length, in memory of a fixed size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator


class Tail:
    """Keeps the newest `limit` bytes and counts those that were let go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.dropped_bytes = 0

    def add(self, data: bytes) -> None:
        """Append, dropping from the front what no longer fits."""
        self._chunks.append(data)
        self._size += len(data)
        while self._size > self._limit:
            excess = self._size - self._limit
            oldest = self._chunks.popleft()
            kept = oldest[excess:]
            self._size -= len(oldest) - len(kept)
            self.dropped_bytes += len(oldest) - len(kept)
            if kept:
                self._chunks.appendleft(kept)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def bytes(self) -> bytes:
        """What is kept, as one piece."""
        return b"".join(self._chunks)
