"""Writing bytes so that they are either there or reported: full writes, flushes, and disk errors in plain words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from infra_agent.errors import UsageError

_FULL = {errno.ENOSPC: "disk full", errno.EDQUOT: "disk quota used up", errno.EFBIG: "file size limit reached"}
_FAULTS = frozenset({*_FULL, errno.EIO, errno.EROFS})


def write_all(fd: int, data: bytes) -> None:
    """Write every byte or raise OSError; part of the data may then be in the file."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def flush(fd: int) -> None:
    """Return once the file's data are on the disk."""
    getattr(os, "fdatasync", os.fsync)(fd)


def flush_directory(path: Path) -> None:
    """Return once the names in a directory are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_disk_fault(error: OSError) -> bool:
    """Whether it is the disk that refuses, full or broken, and not this program that asks for something impossible."""
    return error.errno in _FAULTS


def disk_error(
    error: OSError, path: Path, run_id: str, *, lost: str = "the run cannot be recorded any further",
    then: str = "runs resume",
) -> UsageError:  # fmt: skip
    """The user's words for a failed write: what is wrong, what that means, where, and the command to go on with."""
    cause = _FULL.get(error.errno or 0)
    if cause:
        hint = f"free some space, then: infra-agent {then} {run_id}"
        return UsageError(f"{cause}: {lost}", where=str(path), hint=hint)
    hint = f"check the disk, then: infra-agent {then} {run_id}"
    return UsageError(f"cannot write: {error.strerror or error}", where=str(path), hint=hint)
