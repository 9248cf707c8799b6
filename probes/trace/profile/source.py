"""Opens a profile whatever it is wrapped in, and reads it piece by piece so that its size does not matter.

Covered: plain, gzip, zstd and zip files, several frames, files cut off in the middle (what came before is used).
Not covered: archives of several profiles.
"""

from __future__ import annotations

import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

PIECE = 8 * 2**20
LARGEST = 64 * 2**30
"""Unpacked bytes that are read at most: a small archive may unpack to anything."""
_GZIP, _ZSTD, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"


class UnreadableTrace(ValueError):
    """The file is no profile that can be read; the message says why and what would help."""


@dataclass(slots=True)
class Source:
    """The unpacked bytes of one file, in pieces. `trouble`: why the stream ended before its end."""

    path: Path
    stream: BinaryIO
    read_bytes: int = 0
    trouble: str = ""
    _ahead: bytes = field(default=b"")

    def peek(self, count: int) -> bytes:
        """The first bytes, which are still read afterwards."""
        while len(self._ahead) < count and (more := self._more(count)):
            self._ahead += more
        return self._ahead[:count]

    def pieces(self) -> Iterator[bytes]:
        """All bytes, about 8 MiB at a time."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            yield ahead
        while piece := self._more(PIECE):
            yield piece

    def _more(self, count: int) -> bytes:
        if self.trouble:
            return b""
        try:
            piece = self.stream.read(count)
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError, zipfile.BadZipFile) as error:
            self.trouble = f"the compressed stream breaks off after {self.read_bytes} bytes ({error})"
            return b""
        self.read_bytes += len(piece)
        if self.read_bytes > LARGEST:
            self.trouble = f"more than {LARGEST >> 30} GiB when unpacked: the rest is left out"
        return piece


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The file's bytes without their wrapping. UnreadableTrace when it cannot be opened or is empty."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise UnreadableTrace(f"cannot open {path}: {error.strerror or error}") from error
    with raw:
        magic = raw.read(4)
        raw.seek(0)
        if not magic:
            raise UnreadableTrace(f"{path} is empty: the program may still be writing it, or was killed")
        source = Source(path, _unpacked(path, raw, magic))
        if not source.peek(1):
            raise UnreadableTrace(f"{path} holds nothing: {source.trouble or 'the archive is empty'}")
        yield source


def _unpacked(path: Path, raw: BinaryIO, magic: bytes) -> BinaryIO:
    if magic.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if magic.startswith(_ZSTD):
        return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    if magic.startswith(_ZIP):
        return _only_member(path, raw)
    return raw


def _only_member(path: Path, raw: BinaryIO) -> BinaryIO:
    try:
        archive = zipfile.ZipFile(raw)
        names = [name for name in archive.namelist() if not name.endswith("/")]
        if len(names) != 1:
            raise UnreadableTrace(f"{path} holds {len(names)} files: unpack it and name one")
        return cast(BinaryIO, archive.open(names[0]))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise UnreadableTrace(f"{path} is a damaged or locked archive: {error}") from error
