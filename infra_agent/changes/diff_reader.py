"""Splits a unified diff into files and hunks, with every line accounted for and every hunk's counts made right.

Diff parsers pass over lines that they do not expect, so a hunk with a wrong count loses its last lines in silence. Here
a line that belongs to nothing is refused, and a hunk whose header miscounts is marked `recounted`: it is applied only
where its lines are found in exactly one place (`apply`).

Covered: git's extended headers, plain `diff -u`, prefixes or none, blank context lines without their space, CRLF, a
byte order mark, text before the first file and an e-mail signature behind the last.
Not covered: combined diffs of merges, context diffs, ed scripts; they are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from infra_agent.changes.refusal import Reason, printable, refused

MAX_BYTES = 1_000_000
MAX_FILES = 100
MAX_HUNKS = 1000
_LONGEST_HEADER = 4096
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)", re.DOTALL)
_EXTENDED = re.compile(
    r"(old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from|rename to|similarity index"
    r"|dissimilarity index|index) (.*)"
)
_BINARY = ("Binary files ", "Binary file ", "GIT binary patch")
_NOISE = ("diff ", "Index: ", "======")
_NO_NEWLINE = "\\ No newline at end of file"
_SIGNATURE = "-- "


@dataclass(slots=True, kw_only=True)
class RawHunk:
    """A hunk as written, with true counts. `body` are its lines without line ends, blank context made explicit."""

    old_start: int
    new_start: int
    section: str
    line: int
    body: list[str] = field(default_factory=list)
    recounted: bool = False

    def text(self) -> str:
        """The hunk in canonical form."""
        old = sum(line[0] in " -" for line in self.body)
        new = sum(line[0] in " +" for line in self.body)
        head = f"@@ -{self.old_start},{old} +{self.new_start},{new} @@{self.section}"
        return "".join(f"{line}\n" for line in [head, *self.body])


@dataclass(slots=True, kw_only=True)
class RawFile:
    """One file of a diff as written. `git`, `old` and `new` are the raw names of its headers."""

    line: int
    git: str | None = None
    old: str | None = None
    new: str | None = None
    extended: dict[str, str] = field(default_factory=dict)
    binary: bool = False
    hunks: list[RawHunk] = field(default_factory=list)


def read_diff(text: str) -> list[RawFile]:
    """The files of a diff, in order. Raises ChangeRefused that names the line."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise refused(Reason.MALFORMED, "the diff is not text: it holds half of a surrogate pair") from None
    if size > MAX_BYTES:
        raise refused(Reason.TOO_LARGE, f"the diff has {size} bytes, at most {MAX_BYTES} are read")
    return _Reader(text.removeprefix("\ufeff")).files()


class _Reader:
    """Walks the lines once; a look one line ahead tells a `---` header from a removed line."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if self._lines[-1] == "":
            self._lines.pop()
        self._at = 0
        self._files: list[RawFile] = []
        self._hunks = 0

    def files(self) -> list[RawFile]:
        while self._at < len(self._lines):
            self._outside(self._lines[self._at].removesuffix("\r"))
        if not self._files:
            raise refused(Reason.EMPTY, "the text holds no diff", hint="send a unified diff, as git diff prints it")
        return self._files

    def _outside(self, line: str) -> None:
        """One line that is in no hunk."""
        number = self._at + 1
        extended = _EXTENDED.fullmatch(line)
        if line.startswith("diff --git "):
            self._begin(number, git=self._header(line.removeprefix("diff --git ")))
        elif self._is_file_header(self._at):
            self._names(line, number)
            return
        elif line.startswith("@@"):
            self._hunk(line, number)
            return
        elif extended is not None and self._in_header():
            self._files[-1].extended[extended[1]] = self._header(extended[2])
        elif line.startswith(_BINARY):
            self._binary(number)
        elif line.strip() and not line.startswith(_NOISE) and not self._is_beside(line):
            raise self._orphan(line, number)
        self._at += 1

    def _begin(self, line: int, git: str | None = None) -> RawFile:
        if len(self._files) >= MAX_FILES:
            raise refused(Reason.TOO_LARGE, f"the diff changes more than {MAX_FILES} files", line=line)
        self._files.append(RawFile(line=line, git=git))
        return self._files[-1]

    def _in_header(self) -> bool:
        return bool(self._files) and self._files[-1].git is not None and not self._files[-1].hunks

    def _is_file_header(self, at: int) -> bool:
        pair = self._lines[at : at + 2]
        return len(pair) == 2 and pair[0].startswith("--- ") and pair[1].startswith("+++ ")

    def _names(self, line: str, number: int) -> None:
        current = self._files[-1] if self._in_header() and self._files[-1].old is None else self._begin(number)
        current.old = self._header(line.removeprefix("--- "))
        current.new = self._header(self._lines[self._at + 1].removesuffix("\r").removeprefix("+++ "))
        self._at += 2
        if self._at >= len(self._lines) or not self._lines[self._at].startswith("@@"):
            raise refused(Reason.MALFORMED, "no hunk follows the names of the file", file=current.new, line=number)

    def _header(self, text: str) -> str:
        if len(text) > _LONGEST_HEADER:
            raise refused(Reason.MALFORMED, f"a header of {len(text)} characters is no file name", line=self._at + 1)
        return text

    def _binary(self, number: int) -> None:
        if not self._in_header():
            self._begin(number)
        self._files[-1].binary = True
        raise refused(Reason.BINARY, "binary content cannot be reviewed, so it is not applied", line=number)

    def _is_beside(self, line: str) -> bool:
        """Whether a line may stand beside the diff: before its first file, or as a signature at its very end."""
        if not self._files:
            return not line.startswith(("+++ ", "***"))
        rest = [other for other in self._lines[self._at :] if other.strip()]
        signature = rest[0].rstrip("\r") == _SIGNATURE and len(rest) <= 2
        below = self._lines[self._at - 1].rstrip("\r") == _SIGNATURE and len(rest) == 1
        return signature or below

    def _orphan(self, line: str, number: int) -> Exception:
        hint = "send the diff alone, without code fences or remarks" if line.startswith("```") else ""
        if line.startswith(("+", "-", " ")):
            hint = "every changed line stands in a hunk: @@ -start,count +start,count @@"
        return refused(
            Reason.MALFORMED, f"the line belongs to no hunk and no header: {printable(line)}", line=number, hint=hint
        )

    def _hunk(self, line: str, number: int) -> None:
        head = _HUNK.fullmatch(line)
        if head is None:
            message = f"not a hunk header: {printable(line)}"
            raise refused(Reason.MALFORMED, message, line=number, hint="write @@ -start,count +start,count @@")
        if not self._files or self._files[-1].old is None:
            raise refused(Reason.MALFORMED, "the hunk names no file: --- and +++ are missing", line=number)
        self._hunks += 1
        if self._hunks > MAX_HUNKS:
            raise refused(Reason.TOO_LARGE, f"the diff has more than {MAX_HUNKS} hunks", line=number)
        hunk = RawHunk(old_start=int(head[1]), new_start=int(head[3]), section=head[5], line=number)
        self._at += 1
        wanted = [1 if count is None else int(count) for count in (head[2], head[4])]
        end = self._counted(wanted)
        if end is None:
            hunk.recounted, end = True, self._recounted()
        hunk.body = [self._body_line(at) for at in range(self._at, end)]
        self._at = end
        self._require_change(hunk)
        self._files[-1].hunks.append(hunk)

    def _counted(self, wanted: list[int]) -> int | None:
        """Where the body ends by its counts; None when they are wrong."""
        old, new = wanted
        at = self._at
        while old > 0 or new > 0:
            kind = self._kind(at)
            if kind not in (" ", "-", "+", "\\"):
                return None
            old -= kind in " -"
            new -= kind in " +"
            at += 1
        while self._kind(at) == "\\":
            at += 1
        more = self._kind(at) in (" ", "-", "+") and self._lines[at].rstrip("\r") != ""
        more = more and not self._is_file_header(at) and not self._signature_at(at)
        return None if old < 0 or new < 0 or more else at

    def _recounted(self) -> int:
        """Where the body ends by its looks: at the next header or the end, blank lines before that left out."""
        at = self._at
        while self._kind(at) in (" ", "-", "+", "\\") and not self._is_file_header(at) and not self._signature_at(at):
            at += 1
        following = self._lines[at].rstrip("\r") if at < len(self._lines) else ""
        known = at >= len(self._lines) or self._is_file_header(at) or self._signature_at(at)
        if not known and not following.startswith(("@@", *_NOISE)):
            message = f"neither context nor change: {printable(following)}"
            hint = "every line of a hunk begins with a space, + or -"
            raise refused(Reason.MALFORMED, message, line=at + 1, hint=hint)
        while at > self._at and self._lines[at - 1].rstrip("\r") == "":
            at -= 1
        return at

    def _kind(self, at: int) -> str:
        """First character of a line; a blank line is context whose space an editor has cut."""
        if at >= len(self._lines):
            return ""
        line = self._lines[at]
        return " " if line in ("", "\r") else line[0]

    def _signature_at(self, at: int) -> bool:
        return self._lines[at].rstrip("\r") == _SIGNATURE and at >= len(self._lines) - 3

    def _body_line(self, at: int) -> str:
        line = self._lines[at]
        if line in ("", "\r"):
            return f" {line}"
        return _NO_NEWLINE if line[0] == "\\" else line

    def _require_change(self, hunk: RawHunk) -> None:
        if not any(line[0] in "+-" for line in hunk.body):
            raise refused(Reason.NO_EFFECT, "the hunk changes nothing", line=hunk.line)
