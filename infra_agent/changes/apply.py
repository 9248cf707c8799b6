"""Applies a whole patch to a tree of files, or nothing of it; the inverse of what it returns puts everything back.

All new texts are made in memory and checked before the first file is written. A write that fails is undone.

Covered: every check that needs the tree (`validate`), hunks (`hunks`), creations, deletions, renames, directories made
on the way.
Not covered: a process killed in the middle of the writes: trees are built under another name first (`workspace`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from infra_agent.changes.hunks import edit
from infra_agent.changes.patch import FilePatch, Kind, Patch
from infra_agent.changes.refusal import Reason, refused
from infra_agent.changes.scope import Scope
from infra_agent.changes.tree_files import TreeFiles
from infra_agent.changes.validate import Target, require_applicable

_FILE_MODE = 0o644
_PROGRAM_MODE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One path of the tree before and after: None where there is no file."""

    place: str
    before: bytes | None
    after: bytes | None
    mode_before: int
    mode_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A patch as it was applied, with true line numbers. `directories` were made for it."""

    patch: Patch
    notes: tuple[str, ...]
    written: tuple[Written, ...]
    directories: tuple[str, ...] = ()


def plan_patch(files: TreeFiles, patch: Patch, scope: Scope, *, exact: bool = False) -> Applied:
    """What applying would write; nothing is written. Raises ChangeRefused."""
    targets = require_applicable(files, patch, scope)
    written: list[Written] = []
    placed: list[FilePatch] = []
    notes: list[str] = []
    for file, target in zip(patch.files, targets, strict=True):
        edited = edit(target.content, file, exact=exact)
        if edited.content is not None and edited.content == target.content and file.kind is Kind.MODIFY:
            raise refused(Reason.NO_EFFECT, "the file stays as it is", file=file.path)
        true = replace(edited.patch, executable=bool(target.mode & 0o100)) if file.kind is Kind.DELETE else edited.patch
        written += _writes(file, target, edited.content)
        placed.append(true)
        notes += edited.notes
    applied = Applied(patch=Patch(files=tuple(placed)), notes=tuple(notes), written=tuple(written))
    _require_reversible(applied)
    return applied


def apply_patch(files: TreeFiles, patch: Patch, scope: Scope, *, exact: bool = False) -> Applied:
    """Apply a patch. `exact`: only at the stated lines. Raises ChangeRefused, and then nothing was changed."""
    return _write(files, plan_patch(files, patch, scope, exact=exact))


def revert_patch(files: TreeFiles, applied: Applied, scope: Scope) -> None:
    """Take an applied patch back, by its inverse at exactly its lines. Raises ChangeRefused when the tree moved on."""
    apply_patch(files, applied.patch.inverse(), replace(scope, trusted=True), exact=True)
    files.remove_directories(applied.directories)


def _writes(file: FilePatch, target: Target, content: bytes | None) -> list[Written]:
    old, new = target.old_place, target.new_place
    created = _PROGRAM_MODE if file.executable else _FILE_MODE
    after = target.mode if file.kind is not Kind.CREATE else created
    if file.kind is Kind.RENAME:
        gone = Written(place=old, before=target.content, after=None, mode_before=target.mode, mode_after=0)
        come = Written(place=new, before=None, after=content, mode_before=0, mode_after=after)
        return [gone, come]
    place = old or new
    return [Written(place=place, before=target.content, after=content, mode_before=target.mode, mode_after=after)]


def _require_reversible(applied: Applied) -> None:
    """The inverse, at the lines found, gives the old text back byte for byte: proved before anything is written."""
    before = {written.place: written for written in applied.written}
    texts = iter(applied.written)
    for file in applied.patch.files:
        first = next(texts)
        after = next(texts).after if file.kind is Kind.RENAME else first.after
        back = edit(after, Patch(files=(file,)).inverse().files[0], exact=True)
        if back.content != before[first.place].before:
            raise refused(Reason.HUNK_MISMATCH, "the change could not be taken back exactly", file=file.path)


def _write(files: TreeFiles, planned: Applied) -> Applied:
    done: list[Written] = []
    directories: list[str] = []
    try:
        for written in planned.written:
            done.append(written)
            if written.after is None:
                files.remove(written.place)
            else:
                directories += files.write(written.place, written.after, written.mode_after)
    except OSError:
        _undo(files, done, directories)
        raise
    return replace(planned, directories=tuple(directories))


def _undo(files: TreeFiles, done: Sequence[Written], directories: Sequence[str]) -> None:
    for written in reversed(done):
        if written.before is not None:
            files.write(written.place, written.before, written.mode_before)
        elif files.look(written.place, 0).kind == "file":
            files.remove(written.place)
    files.remove_directories(tuple(directories))
