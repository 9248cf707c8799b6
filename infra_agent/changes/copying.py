"""Copies files into a run: never by hard link, so that no write to a copy reaches the original.

Covered: reflinks where the file system has them, plain copies elsewhere; links as links; permissions; free space.
Not covered: owners, times, extended attributes, sparse files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from infra_agent.errors import ConfigError

MAX_BYTES = 2 * 2**30
RESERVE_BYTES = 256 * 2**20
"""Free space that a copy leaves behind for the run's own files."""
_FICLONE = 0x40049409
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_files(origin: Path, files: Iterable[str], target: Path) -> int:
    """Copy the named files and links into a new directory; the bytes copied. Raises ConfigError."""
    target.mkdir(parents=True, exist_ok=True)
    total, made = 0, {""}
    for path in files:
        folder = path.rpartition("/")[0]
        if folder not in made:
            (target / folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        try:
            total += _copy(origin / path, target / path)
        except FileNotFoundError:
            raise _changed(origin / path) from None
        except OSError as error:
            where, hint = str(origin / path), "see that it can be read, or exclude it"
            raise ConfigError(f"a source file cannot be copied: {error.strerror}", where=where, hint=hint) from error
        if total > MAX_BYTES:
            raise too_large(origin, total)
    return total


def require_space(place: Path, needed_bytes: int) -> None:
    """Raise ConfigError before a copy that would fill the disk."""
    free = shutil.disk_usage(place).free
    if free < needed_bytes + RESERVE_BYTES:
        message = f"{needed_bytes / 1e6:.0f} MB are needed for a copy of the sources, {free / 1e6:.0f} MB are free"
        raise ConfigError(message, where=str(place), hint="free some space, or set INFRA_AGENT_RUNS to another disk")


def too_large(origin: Path, total: int) -> ConfigError:
    """The refusal of sources that a run should not copy."""
    message = f"{origin} has {total / 1e9:.1f} GB of files to copy, at most {MAX_BYTES / 1e9:.1f} are"
    return ConfigError(
        message, where="stack.sources", hint="name a narrower directory, or let git ignore what is built"
    )


def remove_tree(directory: Path) -> None:
    """Remove a directory that we made; nothing is followed out of it."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        raise ConfigError("a directory of an earlier session cannot be removed", where=str(directory))


def _copy(source: Path, target: Path) -> int:
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        target.symlink_to(os.readlink(source))  # noqa: PTH115
        return 0
    reader = os.open(source, _READ)
    try:
        writer = os.open(target, _WRITE, 0o600)
        try:
            _fill(reader, writer)
            os.fchmod(writer, stat.S_IMODE(status.st_mode) & 0o777 | 0o200)
            return os.fstat(writer).st_size
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _fill(reader: int, writer: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.ioctl(writer, _FICLONE, reader)
        return
    with os.fdopen(os.dup(reader), "rb") as source, os.fdopen(os.dup(writer), "wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def _changed(path: Path) -> ConfigError:
    return ConfigError("the sources changed while they were copied", where=str(path), hint="begin the run again")
