"""Tensors as .npy files that the judge and the candidate share.

The judge keeps its own descriptor of every file that it made and reads with pread: a candidate that cuts, replaces or
renames a file can neither crash the judge nor show it other bytes.

Covered: files for mapped inputs and outputs; poison that no honest result equals; files that a command wrote, opened
without following links, plain files only, of bounded size.
Not covered: what is computed from the values.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from probes.numeric.precision import STORED, Array, is_float

_HEADER_BYTES = 4096
_NAN_BITS = {"bfloat16": 0x7FD5, "float16": 0x7ED5, "float32": 0x7FD5A53C, "float64": 0x7FFD5A5CA53C3AC5}
_POISON = np.frombuffer(bytes.fromhex("5aa5c33ca55a3cc3") * 64, dtype=np.uint8)


class BadFile(Exception):
    """A file does not hold what it should. `what` is one of: missing, shape, dtype, cut, form."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


class Shared:
    """One .npy file that the judge made; both sides may map it."""

    def __init__(self, path: Path, values: Array) -> None:
        self.path, self.shape, self.dtype = path, values.shape, values.dtype
        self._bytes = values.nbytes
        buffer = io.BytesIO()
        np.save(buffer, values, allow_pickle=False)
        data = buffer.getvalue()
        self._offset = len(data) - self._bytes
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        _pwrite(self._fd, data, 0)

    def write(self, values: Array) -> None:
        """New content in the same place."""
        _pwrite(self._fd, np.ascontiguousarray(values, dtype=self.dtype).tobytes(), self._offset)

    def read(self) -> Array:
        """The content now; BadFile when the file was cut."""
        data = _pread(self._fd, self._bytes, self._offset)
        if len(data) != self._bytes:
            raise BadFile("cut", f"{self.path.name} was cut to {len(data)} of {self._bytes} bytes")
        return np.frombuffer(data, dtype=self.dtype).reshape(self.shape)

    def digest(self) -> str:
        """SHA-256 of the content now."""
        return hashlib.sha256(_pread(self._fd, self._bytes, self._offset)).hexdigest()

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def poison(shape: tuple[int, ...], dtype: str) -> Array:
    """What an output holds before a call: NaN for floats, an unlikely pattern for whole numbers."""
    kind = STORED[dtype]
    if is_float(dtype):
        # A NaN with a payload: one that a candidate makes by computing looks different.
        return np.full(shape, _NAN_BITS[dtype], dtype=f"<u{kind.itemsize}").view(kind)
    if dtype == "bool":
        return np.zeros(shape, dtype=kind)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    return np.frombuffer(np.resize(_POISON, size).tobytes(), dtype=kind).reshape(shape)


def read_foreign(path: Path, shape: tuple[int, ...], dtype: str) -> Array:
    """The content of a .npy file that the candidate made; BadFile says what is wrong with it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadFile("missing", f"{path.name} was not written ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadFile("form", f"{path.name} is no plain file")
        offset = _check_header(_pread(fd, _HEADER_BYTES, 0), path.name, shape, dtype)
        size = int(np.prod(shape, dtype=np.int64)) * STORED[dtype].itemsize
        data = _pread(fd, size, offset)
    finally:
        os.close(fd)
    if len(data) != size:
        raise BadFile("cut", f"{path.name} ends after {len(data)} of {size} bytes")
    return np.frombuffer(data, dtype=STORED[dtype]).reshape(shape)


def _check_header(head: bytes, name: str, shape: tuple[int, ...], dtype: str) -> int:
    """Where the data begin."""
    if len(head) < 12 or head[:6] != b"\x93NUMPY":
        raise BadFile("form", f"{name} is no .npy file")
    wide = head[6] > 1
    length = int.from_bytes(head[8:12] if wide else head[8:10], "little")
    start = 12 if wide else 10
    try:
        said: dict[str, Any] = ast.literal_eval(head[start : start + length].decode("latin-1"))
        found, kind, order = tuple(said["shape"]), np.dtype(said["descr"]), said["fortran_order"]
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise BadFile("form", f"{name} has no readable header") from error
    if found != shape:
        raise BadFile("shape", f"{name} has the shape {found}, expected {shape}")
    if kind != STORED[dtype]:
        raise BadFile("dtype", f"{name} holds {kind}, expected {STORED[dtype]}")
    if order and len(shape) > 1:
        raise BadFile("form", f"{name} is in Fortran order")
    return start + length


def _pread(fd: int, size: int, offset: int) -> bytes:
    parts = []
    while size > 0:
        part = os.pread(fd, min(size, 1 << 24), offset)
        if not part:
            break
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)


def _pwrite(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
