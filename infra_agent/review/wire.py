"""The SSH wire encoding (RFC 4251): length-prefixed strings and big integers, read strictly."""

from __future__ import annotations

import struct


def put_string(value: bytes) -> bytes:
    """A string with its length before it."""
    return struct.pack(">I", len(value)) + value


class Reader:
    """Takes values off the front. ValueError when the data end too early."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def take(self, count: int) -> bytes:
        """That many bytes."""
        if count > len(self._rest):
            raise ValueError("the data end too early")
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def string(self) -> bytes:
        """A length-prefixed string."""
        return self.take(self.uint32())

    def text(self) -> str:
        """A length-prefixed string of ASCII characters."""
        return self.string().decode("ascii")

    def uint32(self) -> int:
        """A number of four bytes."""
        (number,) = struct.unpack(">I", self.take(4))
        return int(number)

    def mpint(self) -> int:
        """A big integer."""
        return int.from_bytes(self.string(), "big", signed=True)

    def end(self) -> None:
        """ValueError unless everything was taken."""
        if self._rest:
            raise ValueError(f"{len(self._rest)} bytes too many")
