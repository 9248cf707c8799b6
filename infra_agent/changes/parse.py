"""Reads a unified diff into a Patch.

`diff_reader` has accounted for every line and corrected every count; `unidiff` then parses the hunks, and both must
agree on how many there are. Headers are read here, because all names in them must agree.

Covered: refusal of binaries, links, submodules, modes, copies, unsafe names, names that disagree, empty changes.
Not covered: whether the patch fits a source (`validate`, `apply`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk as UnidiffHunk
from unidiff.patch import PatchSet

from infra_agent.changes import diff_paths
from infra_agent.changes.diff_paths import NOTHING
from infra_agent.changes.diff_reader import RawFile, RawHunk, read_diff
from infra_agent.changes.patch import FILE_MODE, PROGRAM_MODE, FilePatch, Hunk, Kind, Patch, PatchLine, Side
from infra_agent.changes.refusal import Reason, refused

_LINK_MODE = "120000"
_SUBMODULE_MODE = "160000"


def parse(text: str) -> Patch:
    """The patch in a unified diff. Raises ChangeRefused for what is not one, or is of a kind never applied."""
    files = tuple(_file(raw) for raw in read_diff(text))
    seen: set[str] = set()
    for file in files:
        for path in file.paths:
            if path in seen:
                raise refused(Reason.TWICE, "the file is changed twice in one diff", file=path, line=file.line)
            seen.add(path)
    return Patch(files=files)


def _file(raw: RawFile) -> FilePatch:
    _require_plain(raw)
    old, new = _names(raw)
    for path in (old, new):
        if path is not None:
            diff_paths.require_safe(path, raw.line)
    name = str(new or old)
    executable = raw.extended.get("deleted file mode") == PROGRAM_MODE
    file = FilePatch(old=old, new=new, hunks=_hunks(raw, name), line=raw.line, executable=executable)
    if not file.hunks and file.kind is Kind.MODIFY:
        raise refused(Reason.NO_EFFECT, "the diff changes nothing in this file", file=name, line=raw.line)
    for number, hunk in enumerate(file.hunks, start=1):
        one_sided = {Kind.CREATE: hunk.old(), Kind.DELETE: hunk.new()}.get(file.kind, ())
        if one_sided or (len(file.hunks) > 1 and file.kind in (Kind.CREATE, Kind.DELETE)):
            message = f"a file that is {file.kind.value}d has one hunk with {'+' if old is None else '-'} lines only"
            raise refused(Reason.MALFORMED, message, file=name, hunk=number, line=hunk.line)
    return file


def _require_plain(raw: RawFile) -> None:
    """Refuse what is no change of a text file's lines."""
    extended = raw.extended
    if "copy from" in extended or "copy to" in extended:
        raise refused(Reason.COPY, "copies are not applied", line=raw.line, hint="create the file with its lines")
    modes = [extended[key] for key in ("new file mode", "deleted file mode", "old mode", "new mode") if key in extended]
    modes += extended.get("index", "").split(" ")[1:2]
    if _LINK_MODE in modes:
        raise refused(Reason.SYMLINK, "symbolic links are not created or changed", line=raw.line)
    if _SUBMODULE_MODE in modes:
        raise refused(Reason.SUBMODULE, "submodules are not created or changed", line=raw.line)
    if "old mode" in extended or "new mode" in extended:
        raise refused(Reason.MODE_CHANGE, "file modes are not changed", line=raw.line)
    if extended.get("new file mode", FILE_MODE) != FILE_MODE:
        raise refused(Reason.MODE_CHANGE, f"a new file has mode {FILE_MODE} and no other", line=raw.line)
    if not set(modes) <= {FILE_MODE, PROGRAM_MODE}:
        raise refused(Reason.MODE_CHANGE, "only regular files are changed", line=raw.line)


def _names(raw: RawFile) -> tuple[str | None, str | None]:
    """Old and new path. All headers that name the file must agree."""
    old, new = _stated_names(raw)
    renamed = [raw.extended.get(key) for key in ("rename from", "rename to")]
    if any(renamed):
        if None in renamed or old == NOTHING or new == NOTHING:
            raise refused(Reason.MALFORMED, "the rename does not say from where to where", line=raw.line)
        names = tuple(diff_paths.header_name(str(name), raw.line) for name in renamed)
        if names != (old, new):
            raise refused(Reason.MALFORMED, "the rename and the file's headers name different files", line=raw.line)
    elif NOTHING not in (old, new) and old != new:
        hint = "a rename needs `rename from` and `rename to` lines"
        message = f"the headers name two files: {old} and {new}"
        raise refused(Reason.MALFORMED, message, line=raw.line, hint=hint)
    if "new file mode" in raw.extended and old != NOTHING:
        raise refused(Reason.MALFORMED, "`new file mode` needs `--- /dev/null`", line=raw.line)
    if "deleted file mode" in raw.extended and new != NOTHING:
        raise refused(Reason.MALFORMED, "`deleted file mode` needs `+++ /dev/null`", line=raw.line)
    if old == new == NOTHING:
        raise refused(Reason.MALFORMED, "the file has no name", line=raw.line)
    return (None if old == NOTHING else old), (None if new == NOTHING else new)


def _stated_names(raw: RawFile) -> tuple[str, str]:
    """The names of `---` and `+++`, or of the git header where a file has no hunks."""
    from_git = diff_paths.git_header_names(raw.git, raw.line) if raw.git is not None else None
    if raw.old is not None and raw.new is not None:
        pair = (diff_paths.header_name(raw.old, raw.line), diff_paths.header_name(raw.new, raw.line))
        stated = diff_paths.without_prefixes(*pair)
        if from_git is not None:
            expected = diff_paths.without_prefixes(*from_git)
            if any(name not in (NOTHING, wanted) for name, wanted in zip(stated, expected, strict=True)):
                raise refused(
                    Reason.MALFORMED, "`diff --git` and the file's headers name different files", line=raw.line
                )
        return stated
    if from_git is None:
        renamed = (raw.extended.get("rename from"), raw.extended.get("rename to"))
        if None in renamed:
            raise refused(Reason.MALFORMED, "the file's name cannot be told from `diff --git`", line=raw.line)
        return diff_paths.header_name(str(renamed[0]), raw.line), diff_paths.header_name(str(renamed[1]), raw.line)
    old, new = diff_paths.without_prefixes(*from_git)
    if "new file mode" in raw.extended:
        return NOTHING, new
    return (old, NOTHING) if "deleted file mode" in raw.extended else (old, new)


def _hunks(raw: RawFile, name: str) -> tuple[Hunk, ...]:
    if not raw.hunks:
        return ()
    text = "--- a\n+++ b\n" + "".join(hunk.text() for hunk in raw.hunks)
    try:
        parsed = PatchSet.from_string(text)
    except UnidiffParseError as error:
        raise refused(Reason.MALFORMED, f"the hunks cannot be parsed: {error}", file=name, line=raw.line) from None
    if len(parsed) != 1 or len(parsed[0]) != len(raw.hunks):
        raise refused(Reason.MALFORMED, "the hunks cannot be told apart", file=name, line=raw.line)
    pairs = enumerate(zip(raw.hunks, parsed[0], strict=True), start=1)
    return tuple(_hunk(written, hunk, name, number) for number, (written, hunk) in pairs)


def _hunk(raw: RawHunk, parsed: UnidiffHunk, name: str, number: int) -> Hunk:
    lines: list[PatchLine] = []
    for line in parsed:
        if line.line_type == "\\":
            lines[-1] = _without_newline(lines, name, number, raw.line)
        else:
            lines.append(PatchLine(Side(line.line_type or " "), line.value.encode()))
    if b"\0" in b"".join(line.content for line in lines):
        raise refused(Reason.BINARY, "the hunk holds a NUL byte", file=name, hunk=number, line=raw.line)
    hunk = Hunk(
        old_start=raw.old_start,
        new_start=raw.new_start,
        lines=tuple(lines),
        section=raw.section.rstrip("\r"),
        line=raw.line,
        recounted=raw.recounted,
    )
    if hunk.old() == hunk.new():
        raise refused(Reason.NO_EFFECT, "the hunk removes and adds the same", file=name, hunk=number, line=raw.line)
    if not all(content.endswith(b"\n") for content in (*hunk.old()[:-1], *hunk.new()[:-1])):
        message = "only the last line of a file can lack its newline"
        raise refused(Reason.MALFORMED, message, file=name, hunk=number, line=raw.line)
    return hunk


def _without_newline(lines: Sequence[PatchLine], name: str, number: int, at: int) -> PatchLine:
    if not lines or not lines[-1].content.endswith(b"\n"):
        raise refused(Reason.MALFORMED, "the no-newline mark follows no line", file=name, hunk=number, line=at)
    return replace(lines[-1], content=lines[-1].content[:-1])
