"""Which files of a source are taken into a run: what git tracks or would offer to track, as they are on disk now.

The user's repository is only read as data: its index is copied beside, and git looks at the working tree with a
configuration of the harness's own. Nothing that the repository's configuration names is run.

Covered: repositories, work trees, submodules and nested repositories, directories inside a repository, plain
directories; large or ignored files and virtual environments, which stay where they are and are shared.
Not covered: sockets and devices, byte-code caches, version control's own files: they are left out.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from infra_agent.changes.repository import Repository, find_repository
from infra_agent.changes.tree import files_below
from infra_agent.changes.validate import LARGEST_FILE_BYTES
from infra_agent.errors import ConfigError

MAX_FILES = 100_000
MAX_SHARED = 256
"""Shared entries are mounted one by one."""
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
)
_SHARED_FOLDERS = frozenset({"node_modules", ".tox", ".nox"})
_ENVIRONMENT = "pyvenv.cfg"
_DEEPEST = 16


class Listing(NamedTuple):
    """Paths below a source. `files` are copied; `shared` files and directories stay in the original."""

    files: tuple[str, ...]
    shared: tuple[str, ...]


def list_source(origin: Path, leave_out: Sequence[Path] = (), *, installed: bool = False) -> Listing:
    """The files of a source, without what lies below the directories in `leave_out`. Raises ConfigError.

    `installed`: a package, which is taken whole whatever repository its environment happens to lie in.
    """
    files, ignored = (_plain_listing(origin), list[str]()) if installed else _found(origin)
    _require_inside([*files, *ignored])
    skipped = {path.relative_to(origin).as_posix() for path in leave_out if path.is_relative_to(origin)}
    environments = {path.rpartition("/")[0] for path in files if path.rpartition("/")[2] == _ENVIRONMENT} - {""}
    shared = {path.rstrip("/") for path in ignored} | environments
    shared |= {_up_to(path, _SHARED_FOLDERS) for path in files} - {""}
    shared = {path for path in shared if not _below(path, skipped) and not _left_out(path)}
    # A link is copied as a link, ignored or not; what lies behind one is not listed.
    links = {path for path in {*files, *shared} if (origin / path).is_symlink()}
    files, shared, skipped = [*files, *sorted(links)], shared - links, skipped | links
    kept = []
    for path in dict.fromkeys(files):
        if _left_out(path) or _below(path, skipped, or_same=False) or _below(path, shared):
            continue
        size = _size(origin / path)
        if size is not None and size > LARGEST_FILE_BYTES:
            shared.add(path)
        elif size is not None:
            kept.append(path)
    return _bounded(origin, kept, sorted(path for path in shared if _is_outermost(path, shared, origin)))


def _found(origin: Path, depth: int = 0) -> tuple[list[str], list[str]]:
    """Files, and ignored entries (directories end with a slash). `depth`: how many repositories lie around it."""
    if depth > _DEEPEST:
        raise ConfigError(f"more than {_DEEPEST} repositories lie inside one another: {origin}", where="stack.sources")
    repository = find_repository(origin)
    if repository is not None:
        files, ignored = _git_listing(repository, origin, depth)
        if files or origin == repository.root:
            return files, ignored
    return _plain_listing(origin), []


def _git_listing(repository: Repository, origin: Path, depth: int) -> tuple[list[str], list[str]]:
    prefix = origin.relative_to(repository.root).as_posix()
    with tempfile.TemporaryDirectory(prefix="infra-agent-list-") as folder:
        git = repository.reader(Path(folder) / "git")
        tracked = _words(git.run("ls-files", "-z", "--stage", "--", prefix, cwd=repository.root))
        others = _words(git.run("ls-files", "-z", "--others", "--exclude-standard", "--", prefix, cwd=repository.root))
        # Git refuses to list what is ignored below a directory that is ignored itself; all of that is no source here.
        shown = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", prefix)
        ignored = _words(git.run(*shown, cwd=repository.root)) if tracked or others else []
    files: list[str] = []
    nested = [path for path in others if path.endswith("/")]
    files += [path for path in others if not path.endswith("/")]
    for entry in tracked:
        head, _, path = entry.partition("\t")
        (nested if head.startswith("160000") else files).append(path)
    below = _relative([*dict.fromkeys(files)], prefix)
    inside_ignored = _relative(ignored, prefix)
    for path in _relative(nested, prefix):
        more, hidden = _nested(origin / path, depth + 1)
        folder_name = path.rstrip("/")
        below += [f"{folder_name}/{name}" for name in more]
        inside_ignored += [f"{folder_name}/{name}" for name in hidden]
    return below, inside_ignored


def _nested(folder: Path, depth: int) -> tuple[list[str], list[str]]:
    """A submodule or a repository inside another: its own files, as plain files."""
    return _found(folder.resolve(), depth) if folder.is_dir() and not folder.is_symlink() else ([], [])


def _require_inside(paths: Iterable[str]) -> None:
    """An index is a file that anybody could have made: no name in it may lead out of the source."""
    for path in paths:
        if path.startswith("/") or {"", ".", ".."} & set(path.removesuffix("/").split("/")):
            raise ConfigError(f"the repository names a file outside itself: {path!r}", where="stack.sources")


def _plain_listing(origin: Path) -> list[str]:
    return sorted(path for path, _ in files_below(origin, leave_out=_LEFT_OUT))


def _words(output: bytes) -> list[str]:
    return [os.fsdecode(word) for word in output.split(b"\0") if word]


def _relative(paths: Iterable[str], prefix: str) -> list[str]:
    """Paths below the prefix, named from there; the prefix itself (all of it ignored) is nothing."""
    if prefix == ".":
        return [path for path in paths if path.rstrip("/")]
    return [path[len(prefix) + 1 :] for path in paths if path.startswith(f"{prefix}/") and len(path) > len(prefix) + 1]


def _left_out(path: str) -> bool:
    return any(part in _LEFT_OUT for part in path.split("/")) or path.endswith(".pyc")


def _up_to(path: str, names: frozenset[str]) -> str:
    """The path up to the first part of one of these names; empty without one."""
    parts = path.split("/")[:-1]
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if part in names), "")


def _below(path: str, folders: set[str], *, or_same: bool = True) -> bool:
    parts = path.split("/")
    deepest = len(parts) + 1 if or_same else len(parts)
    return any("/".join(parts[:count]) in folders for count in range(1, deepest))


def _is_outermost(path: str, shared: set[str], origin: Path) -> bool:
    parts = path.split("/")
    inside = any("/".join(parts[:count]) in shared for count in range(1, len(parts)))
    return not inside and (origin / path).exists()


def _size(path: Path) -> int | None:
    """Bytes of a file, 0 of a link; None for what is gone, or neither."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _bounded(origin: Path, files: list[str], shared: list[str]) -> Listing:
    hint = "name a narrower directory in stack.sources"
    if len(files) > MAX_FILES:
        raise ConfigError(f"{origin} has {len(files)} files, at most {MAX_FILES} are taken", hint=hint)
    if len(shared) > MAX_SHARED:
        message = f"{origin} has {len(shared)} ignored or large entries to be shared, at most {MAX_SHARED} can be"
        raise ConfigError(message, where="stack.sources", hint=hint)
    return Listing(tuple(sorted(files)), tuple(shared))
