"""What a directory holds, as one SHA-256: paths, modes and contents; symbolic links as links.

Covered: every regular file and link below it, byte for byte; executable or not, as git keeps it.
Not covered: empty directories, owners, times, the other permission bits; the entries named in `without` (they are
shared with the original, not part of the tree).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from infra_agent.errors import ConfigError
from infra_agent.stack.hashing import sha256_file


class Entry(NamedTuple):
    """A file or link: its mode as git writes it, and the SHA-256 of its content (of a link: of its target)."""

    mode: str
    sha256: str


def tree_digest(root: Path, without: Collection[str] = ()) -> str:
    """The digest of everything below `root`. Raises ConfigError for what is neither file, link nor directory."""
    return digest_of(tree_entries(root, without))


def digest_of(entries: Mapping[str, Entry]) -> str:
    """The digest of a listing; equal listings have equal digests whatever their order."""
    total = hashlib.sha256()
    for path in sorted(entries, key=os.fsencode):
        entry = entries[path]
        total.update(b"\0".join((os.fsencode(path), entry.mode.encode(), entry.sha256.encode())) + b"\0")
    return total.hexdigest()


def tree_entries(root: Path, without: Collection[str] = ()) -> dict[str, Entry]:
    """Path → entry of everything below `root`."""
    return {path: _entry(found) for path, found in files_below(root, without=without)}


def files_below(
    root: Path, *, without: Collection[str] = (), leave_out: Collection[str] = ()
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file and link below `root`, in no order; links to directories are links. However deep, without recursion.

    `without` are paths below `root`, `leave_out` names of files or directories anywhere.
    """
    paths, names = frozenset(without), frozenset(leave_out)
    pending = [(str(root), "")]
    while pending:
        directory, above = pending.pop()
        with os.scandir(directory) as found:
            for entry in found:
                path = f"{above}{entry.name}"
                if path in paths or entry.name in names:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{path}/"))
                else:
                    yield path, entry


def _entry(found: os.DirEntry[str]) -> Entry:
    status = found.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(found.path))  # noqa: PTH115
        return Entry("120000", hashlib.sha256(target).hexdigest())
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"neither file nor link: {found.path}", where="stack.sources", hint="move it elsewhere")
    mode = "100755" if status.st_mode & 0o100 else "100644"
    return Entry(mode, sha256_file(Path(found.path)))
