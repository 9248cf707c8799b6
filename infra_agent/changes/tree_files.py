"""Reads and writes files below one directory, and never outside: every step is opened relative to the one above it.

No link is ever followed, neither in the path nor as the file itself. A file is written beside its place and renamed
over it, so that a reader sees the old text or the new one, and a hard link to it elsewhere keeps the old.

Covered: reading, creating, replacing and removing regular files; directories made on the way, and taken back.
Not covered: another process that changes the same tree meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    """What stands at a path: `kind` is absent, file, directory, link or special. The rest is of a file only."""

    kind: str
    content: bytes = b""
    mode: int = 0
    size: int = 0

    @property
    def executable(self) -> bool:
        """Whether its owner may run it."""
        return bool(self.mode & 0o100)


@dataclass(frozen=True, slots=True)
class TreeFiles:
    """The files below `root`. Paths are relative, with `/`, already checked by `diff_paths.require_safe`."""

    root: Path

    def look(self, path: str, largest_bytes: int) -> Found:
        """What is there. A larger file comes without its content; a link on the way is a link."""
        try:
            with self._parent(path) as (parent, name):
                return _look_at(parent, name, largest_bytes)
        except FileNotFoundError:
            return Found("absent")
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                return Found("link")
            if error.errno == errno.ENOTDIR:
                return Found("link" if self._has_link(path) else "special")
            raise

    def names_beside(self, path: str) -> list[str]:
        """Names in the directory that holds the path; empty when there is none."""
        try:
            with self._parent(path) as (parent, _):
                return os.listdir(parent)  # noqa: PTH208
        except OSError:
            return []

    def write(self, path: str, content: bytes, mode: int) -> tuple[str, ...]:
        """Create or replace a file with these permissions; returns the directories made for it, outermost first."""
        made = self._make_parents(path)
        with self._parent(path) as (parent, name):
            part = f".part-{secrets.token_hex(8)}"
            handle = os.open(part, _WRITE, 0o600, dir_fd=parent)
            try:
                with os.fdopen(handle, "wb") as sink:
                    sink.write(content)
                    sink.flush()
                    os.fchmod(sink.fileno(), mode)
                os.rename(part, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=parent)
                raise
        return made

    def remove(self, path: str) -> None:
        """Remove a file."""
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def remove_directories(self, made: tuple[str, ...]) -> None:
        """Take back directories that `write` made, innermost first; one that is in use stays."""
        for path in reversed(made):
            with contextlib.suppress(OSError), self._parent(path) as (parent, name):
                os.rmdir(name, dir_fd=parent)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that holds the path, opened step by step, and the last name."""
        *steps, name = path.split("/")
        if not name or name in (".", "..") or any(step in ("", ".", "..") for step in steps):
            raise ValueError(f"not a path below the tree: {path!r}")
        handle = os.open(self.root, _DIRECTORY)
        try:
            for step in steps:
                below = os.open(step, _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle, name
        finally:
            os.close(handle)

    def _make_parents(self, path: str) -> tuple[str, ...]:
        parts = path.split("/")[:-1]
        made = []
        for count in range(1, len(parts) + 1):
            directory = "/".join(parts[:count])
            with self._parent(directory) as (parent, name):
                try:
                    os.mkdir(name, 0o755, dir_fd=parent)
                except FileExistsError:
                    continue
            made.append(directory)
        return tuple(made)

    def _has_link(self, path: str) -> bool:
        """Whether a step on the way is a link (to a directory: opening it says only that it is none)."""
        parts = path.split("/")
        for count in range(1, len(parts)):
            try:
                with self._parent("/".join(parts[:count])) as (parent, name):
                    if stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode):
                        return True
            except OSError:
                return False
        return False


def _look_at(parent: int, name: str, largest_bytes: int) -> Found:
    status = os.lstat(name, dir_fd=parent)
    if stat.S_ISLNK(status.st_mode):
        return Found("link")
    if stat.S_ISDIR(status.st_mode):
        return Found("directory")
    if not stat.S_ISREG(status.st_mode):
        return Found("special")
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if status.st_size > largest_bytes:
        return Found("file", b"", mode, status.st_size)
    handle = os.open(name, _READ, dir_fd=parent)
    with os.fdopen(handle, "rb") as source:
        return Found("file", source.read(largest_bytes + 1), mode, status.st_size)
