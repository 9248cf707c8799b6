"""A code change as data: files, hunks and lines, its inverse, and the one canonical diff that it is printed as.

Covered: changed, created, deleted and renamed text files.
Not covered: reading a diff (`parse`), and whether it fits a source (`validate`, `apply`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum

from infra_agent.changes.diff_paths import NOTHING

FILE_MODE = "100644"
PROGRAM_MODE = "100755"
_NO_NEWLINE = "\\ No newline at end of file"


class Side(StrEnum):
    """Which side of a change a line stands on."""

    CONTEXT = " "
    REMOVED = "-"
    ADDED = "+"


class Kind(StrEnum):
    """What a patch does to a file."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line with its line end; without one it is the last of its file."""

    side: Side
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One changed place. Starts count from 1; `line` is its header's line in the diff as it was sent.

    `recounted`: the header's counts were wrong, so its stated start is not believed either.
    """

    old_start: int
    new_start: int
    lines: tuple[PatchLine, ...]
    section: str = ""
    line: int = 0
    recounted: bool = False

    def old(self) -> tuple[bytes, ...]:
        """The lines that must be there before."""
        return tuple(line.content for line in self.lines if line.side is not Side.ADDED)

    def new(self) -> tuple[bytes, ...]:
        """The lines that are there afterwards."""
        return tuple(line.content for line in self.lines if line.side is not Side.REMOVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """What happens to one file. `old` None: it is created; `new` None: it is deleted.

    `executable`: of a created or deleted file; a diff can create none, but the inverse of a deletion can.
    """

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    line: int = 0
    executable: bool = False

    @property
    def mode(self) -> str:
        """The file's mode as git writes it."""
        return PROGRAM_MODE if self.executable else FILE_MODE

    @property
    def kind(self) -> Kind:
        """What the patch does to the file."""
        if self.old is None:
            return Kind.CREATE
        if self.new is None:
            return Kind.DELETE
        return Kind.MODIFY if self.old == self.new else Kind.RENAME

    @property
    def path(self) -> str:
        """The name by which people know it: the new one, unless it is deleted."""
        return self.new if self.new is not None else self.old or ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is read or written, the old one first."""
        return tuple(dict.fromkeys(path for path in (self.old, self.new) if path is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A whole code change."""

    files: tuple[FilePatch, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is read or written, each once."""
        return tuple(dict.fromkeys(path for file in self.files for path in file.paths))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return hashlib.sha256(render(self).encode()).hexdigest()

    def inverse(self) -> Patch:
        """The patch that puts everything back. Exact for a patch whose starts are true, as `apply` returns it."""
        return Patch(files=tuple(_inverse(file) for file in reversed(self.files)))


def render(patch: Patch) -> str:
    """The canonical diff: git's headers, true counts, no time stamps. `git apply` accepts it."""
    return "".join(_render_file(file) for file in patch.files)


def _inverse(file: FilePatch) -> FilePatch:
    return replace(file, old=file.new, new=file.old, hunks=tuple(_inverse_hunk(hunk) for hunk in file.hunks))


def _inverse_hunk(hunk: Hunk) -> Hunk:
    turned = {Side.ADDED: Side.REMOVED, Side.REMOVED: Side.ADDED, Side.CONTEXT: Side.CONTEXT}
    lines = tuple(PatchLine(turned[line.side], line.content) for line in hunk.lines)
    return replace(hunk, old_start=hunk.new_start, new_start=hunk.old_start, lines=lines)


def _render_file(file: FilePatch) -> str:
    old, new = file.old or file.path, file.new or file.path
    head = [f"diff --git {_quoted('a/' + old)} {_quoted('b/' + new)}"]
    if file.kind is Kind.CREATE:
        head.append(f"new file mode {file.mode}")
    elif file.kind is Kind.DELETE:
        head.append(f"deleted file mode {file.mode}")
    elif file.kind is Kind.RENAME:
        head += [f"rename from {_quoted(old)}", f"rename to {_quoted(new)}"]
    if file.hunks:
        head.append("--- " + (NOTHING if file.old is None else _stamped("a/" + old)))
        head.append("+++ " + (NOTHING if file.new is None else _stamped("b/" + new)))
    return "".join(f"{line}\n" for line in head) + "".join(_render_hunk(hunk) for hunk in file.hunks)


def _render_hunk(hunk: Hunk) -> str:
    old, new = len(hunk.old()), len(hunk.new())
    parts = [f"@@ -{hunk.old_start},{old} +{hunk.new_start},{new} @@{hunk.section}\n"]
    for line in hunk.lines:
        text = line.content.decode()
        parts.append(f"{line.side.value}{text}" if text.endswith("\n") else f"{line.side.value}{text}\n{_NO_NEWLINE}\n")
    return "".join(parts)


def _quoted(name: str) -> str:
    if '"' not in name:
        return name
    return '"' + name.replace('"', '\\"') + '"'


def _stamped(name: str) -> str:
    """A name with a space is followed by a tab, as git does it, so that no reader takes a part for a time stamp."""
    return f"{_quoted(name)}\t" if " " in name else _quoted(name)
