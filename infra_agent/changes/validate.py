"""Checks that need the tree: is every path of a patch in scope, and is what stands there a text file of its own?

Covered: missing and existing files, links on the way or at the end, directories, binaries, LFS pointers, size, names
that differ from another only in case or Unicode form, files in the place of directories.
Not covered: the text of hunks (`hunks`).
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

from infra_agent.changes.diff_paths import folded
from infra_agent.changes.patch import FilePatch, Kind, Patch
from infra_agent.changes.refusal import Reason, refused
from infra_agent.changes.scope import Scope
from infra_agent.changes.tree_files import Found, TreeFiles

LARGEST_FILE_BYTES = 4 * 2**20
_LFS = b"version https://git-lfs.github.com/spec/"


class Target(NamedTuple):
    """The present state of a file that a patch changes: its places in the tree, its text (None: absent) and mode."""

    old_place: str
    new_place: str
    content: bytes | None
    mode: int


def require_applicable(files: TreeFiles, patch: Patch, scope: Scope) -> tuple[Target, ...]:
    """The target of every file of the patch. Raises ChangeRefused for the first that may not be changed."""
    _require_distinct(patch)
    return tuple(_target(files, file, scope) for file in patch.files)


def _target(files: TreeFiles, file: FilePatch, scope: Scope) -> Target:
    if file.old is not None:
        scope.require(file.old, exists=True)
    if file.new is not None and file.new != file.old:
        scope.require(file.new, exists=False)
    old = scope.place(file.old) if file.old is not None else ""
    new = scope.place(file.new) if file.new is not None else ""
    found = Found("absent")
    if file.old is not None:
        found = files.look(old, LARGEST_FILE_BYTES)
        _require_text_file(found, file.old, _close_names(files, old, file.old) if found.kind == "absent" else "")
    if file.kind in (Kind.CREATE, Kind.RENAME):
        _require_free(files, new, str(file.new))
        _require_same_case(files, new, str(file.new))
    return Target(old, new, None if file.old is None else found.content, found.mode)


def _require_text_file(found: Found, path: str, near: str) -> None:
    if found.kind == "absent":
        hint = f"did you mean {near}?" if near else "paths start at the source's root"
        raise refused(Reason.NO_SUCH_FILE, "there is no such file in the source", file=path, hint=hint)
    if found.kind == "link":
        raise refused(Reason.SYMLINK, "the path is, or leads through, a symbolic link", file=path)
    if found.kind != "file":
        raise refused(Reason.BAD_PATH, f"the path is a {found.kind}, not a file", file=path)
    if found.size > LARGEST_FILE_BYTES:
        message = f"the file has {found.size} bytes; at most {LARGEST_FILE_BYTES} are patched"
        raise refused(Reason.TOO_LARGE, message, file=path)
    if b"\0" in found.content:
        raise refused(Reason.BINARY, "the file is binary", file=path)
    if found.content.startswith(_LFS):
        raise refused(Reason.BINARY, "the file is a pointer to content kept elsewhere (Git LFS)", file=path)


def _require_free(files: TreeFiles, place: str, path: str) -> None:
    found = files.look(place, 0)
    if found.kind == "link":
        raise refused(Reason.SYMLINK, "the path is, or leads through, a symbolic link", file=path)
    if found.kind == "special":
        raise refused(Reason.EXISTS, "a part of the path is a file, not a directory", file=path)
    if found.kind != "absent":
        raise refused(Reason.EXISTS, f"there is a {found.kind} of this name already", file=path)


def _require_same_case(files: TreeFiles, place: str, path: str) -> None:
    """Refuse a path of which a part equals another name but for case or Unicode form: some file systems merge them."""
    parts = place.split("/")
    for count in range(2, len(parts) + 1):
        part = "/".join(parts[:count])
        own = parts[count - 1]
        twin = next((n for n in files.names_beside(part) if n != own and folded(n) == folded(own)), None)
        if twin is not None:
            message = f"the name differs from {twin} only in case or Unicode form"
            raise refused(Reason.CASE_COLLISION, message, file=path)


def _require_distinct(patch: Patch) -> None:
    """The same within the patch: no file system may take two of its paths, or a path and a directory, for one."""
    seen: dict[str, str] = {}
    for path in patch.paths:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            part = "/".join(parts[:count])
            other = seen.setdefault(folded(part), part)
            if other != part:
                message = f"the name differs from {other} only in case or Unicode form"
                raise refused(Reason.CASE_COLLISION, message, file=path)
    created = [file.new for file in patch.files if file.new is not None and file.new != file.old]
    for path in created:
        below = next((other for other in created if other.startswith(f"{path}/")), None)
        if below is not None:
            raise refused(Reason.EXISTS, f"it would be a file and the directory of {below}", file=path)


def _close_names(files: TreeFiles, place: str, path: str) -> str:
    """A file of nearly this name beside it, as the patch would have to write it."""
    name = place.rsplit("/", 1)[-1]
    near = difflib.get_close_matches(name, files.names_beside(place), n=1)
    folder = path.rpartition("/")[0]
    return "/".join(filter(None, [folder, near[0]])) if near else ""
