"""Names in a diff, turned into paths below the source: unquoted, without `a/` and `b/`, and refused when unsafe.

Covered: names as git quotes them, time stamps behind a tab, prefixes or none; absolute and `..` paths, control and
direction characters, backslashes, version control's own files, byte-code caches.
Not covered: what stands on disk under a path (`validate`).
"""

from __future__ import annotations

import re
import unicodedata

from infra_agent.changes.refusal import Reason, refused

NOTHING = "/dev/null"
_PREFIXES = (("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"))
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DRIVE = re.compile(r"[A-Za-z]:")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_VERSION_CONTROL = frozenset({".hg", ".svn", ".bzr", "cvs", "git~1", "_darcs"})
_LONGEST_NAME_BYTES = 255
_LONGEST_PATH_BYTES = 1024


def header_name(text: str, line: int) -> str:
    """The name in a `---`, `+++` or `rename` header: unquoted, without a time stamp."""
    if not text.startswith('"'):
        return text.partition("\t")[0]
    quoted = _QUOTED.match(text)
    if quoted is None or (text[quoted.end() :] and not text[quoted.end() :].startswith("\t")):
        raise refused(Reason.MALFORMED, "a quoted file name does not end", line=line)
    return _unquoted(quoted[1], line)


def git_header_names(text: str, line: int) -> tuple[str, str] | None:
    """Old and new name of a `diff --git` line; None where spaces leave it open and the names differ."""
    quoted = _QUOTED.match(text)
    if quoted is not None and text[quoted.end() : quoted.end() + 1] == " ":
        return _unquoted(quoted[1], line), header_name(text[quoted.end() + 1 :], line)
    if text.endswith('"'):
        old, _, new = text.partition(' "')
        return (old, header_name(f'"{new}', line)) if new else None
    if text.count(" ") == 1:
        old, _, new = text.partition(" ")
        return old, new
    half = len(text) // 2
    old, gap, new = text[:half], text[half : half + 1], text[half + 1 :]
    same = gap == " " and without_prefixes(old, new)[0] == without_prefixes(old, new)[1]
    return (old, new) if same else None


def without_prefixes(old: str, new: str) -> tuple[str, str]:
    """Both names without the pair of prefixes that they carry, if they carry one."""
    for first, second in _PREFIXES:
        if old == NOTHING and new.startswith("b/") and second == "b/":
            return old, new[2:]
        if new == NOTHING and old.startswith("a/") and first == "a/":
            return old[2:], new
        if old.startswith(first) and new.startswith(second):
            return old[2:], new[2:]
    return old, new


def require_safe(path: str, line: int) -> None:
    """Refuse a path that leaves the source, deceives a reader, or belongs to version control."""
    if path.startswith("/") or _DRIVE.match(path):
        raise refused(
            Reason.ABSOLUTE_PATH, "the path is absolute", file=path, line=line, hint="name it from the source"
        )
    if not path or any(unicodedata.category(character) in _UNSAFE_CATEGORIES for character in path):
        raise refused(Reason.BAD_PATH, "the path is empty or holds an invisible character", file=path, line=line)
    if "\\" in path:
        raise refused(Reason.BAD_PATH, "the path holds a backslash", file=path, line=line, hint="separate with /")
    parts = path.split("/")
    if ".." in parts:
        raise refused(Reason.PARENT_PATH, "the path holds ..", file=path, line=line, hint="name it from the source")
    if "" in parts or "." in parts:
        raise refused(Reason.BAD_PATH, "the path has an empty part", file=path, line=line)
    if any(len(part.encode()) > _LONGEST_NAME_BYTES for part in parts) or len(path.encode()) > _LONGEST_PATH_BYTES:
        raise refused(Reason.BAD_PATH, "the path is too long", file=path, line=line)
    if any(_is_version_control(part) for part in parts):
        raise refused(Reason.GIT_PATH, "version control's own files are not part of a change", file=path, line=line)
    if "__pycache__" in parts:
        raise refused(Reason.BINARY, "byte-code caches are not source", file=path, line=line)


def folded(name: str) -> str:
    """The name as a file system that ignores case and Unicode form compares it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _is_version_control(part: str) -> bool:
    # Some file systems drop trailing dots and spaces, and ignore case: `.GIT. ` would be `.git` there.
    name = folded(part).rstrip(". ")
    return name.startswith(".git") or name in _VERSION_CONTROL


def _unquoted(text: str, line: int) -> str:
    def character(match: re.Match[bytes]) -> bytes:
        word = match[1]
        return bytes([int(word, 8) & 0xFF]) if len(word) == 3 else _ESCAPED.get(word, word)

    try:
        return _ESCAPE.sub(character, text.encode()).decode()
    except UnicodeError:
        raise refused(Reason.BAD_PATH, "the quoted name is not UTF-8", line=line) from None
