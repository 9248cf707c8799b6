"""Puts a file's hunks into its text: exact lines, at the stated place or at the only place where they are.

A hunk stands where its header says if its context and removed lines are there, byte for byte. Otherwise it stands in
the one place of the file that has these lines; in none or in several it is refused. A hunk whose header miscounts must
have such a place of its own, whatever start it states. Nothing is ever matched approximately or applied in part.

Covered: line ends as they are (LF, CRLF, none at the end), byte order marks, empty files, any encoding (bytes are
compared).
Not covered: files on disk (`apply`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from infra_agent.changes.patch import FilePatch, Hunk, Kind
from infra_agent.changes.refusal import Reason, printable, refused

_MOST_PLACES = 6
_MOST_COMPARED = 5_000_000


class Edited(NamedTuple):
    """New text (None: the file is gone), the file's patch with true starts, and what was corrected."""

    content: bytes | None
    patch: FilePatch
    notes: tuple[str, ...]


def edit(content: bytes | None, file: FilePatch, *, exact: bool = False) -> Edited:
    """The text after all hunks. `exact`: every hunk at its stated start and nowhere else.

    Raises ChangeRefused that names file and hunk, and what stands there instead.
    """
    lines = split_lines(content or b"")
    result: list[bytes] = []
    placed: list[Hunk] = []
    notes: list[str] = []
    done = 0
    for number, hunk in enumerate(file.hunks, start=1):
        at = _exact_place(lines, hunk, file, number) if exact else _place(lines, hunk, file, number, done)
        if at < done:
            raise refused(
                Reason.HUNK_MISMATCH, "the hunk lies before or over the one above it", file=file.path, hunk=number
            )
        old, new = hunk.old(), hunk.new()
        _require_end(lines, at + len(old), new, file, number)
        result += lines[done:at]
        true = replace(hunk, old_start=_start(at, old), new_start=_start(len(result), new), recounted=False)
        notes += _corrections(hunk, true, file, number)
        placed.append(true)
        result += new
        done = at + len(old)
    result += lines[done:]
    if file.kind is Kind.DELETE and result:
        message = f"the deletion leaves {len(result)} lines: it must remove them all"
        raise refused(Reason.HUNK_MISMATCH, message, file=file.path)
    gone = file.kind is Kind.DELETE
    return Edited(None if gone else b"".join(result), replace(file, hunks=tuple(placed)), tuple(notes))


def split_lines(content: bytes) -> list[bytes]:
    """Lines with their line ends; only a line feed ends a line."""
    *whole, last = content.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


def _start(at: int, lines: Sequence[bytes]) -> int:
    """The start that a hunk header states: an empty side stands behind the line it names."""
    return at + 1 if lines else at


def _exact_place(lines: Sequence[bytes], hunk: Hunk, file: FilePatch, number: int) -> int:
    old = hunk.old()
    at = hunk.old_start - 1 if old else hunk.old_start
    if at < 0 or at > len(lines) or tuple(lines[at : at + len(old)]) != old:
        raise _mismatch(lines, hunk, file, number)
    return at


def _place(lines: Sequence[bytes], hunk: Hunk, file: FilePatch, number: int, done: int) -> int:
    old = hunk.old()
    if not old:
        if lines:
            message = "the hunk has neither context nor removed lines: its place cannot be checked"
            hint = "send three lines of context around each change"
            raise refused(Reason.HUNK_MISMATCH, message, file=file.path, hunk=number, line=hunk.line, hint=hint)
        return 0
    stated = hunk.old_start - 1
    if not hunk.recounted and stated >= done and tuple(lines[stated : stated + len(old)]) == old:
        return stated
    places = _places(lines, old)
    if not places:
        raise _mismatch(lines, hunk, file, number)
    if len(places) > 1:
        listed = ", ".join(str(at + 1) for at in places[: _MOST_PLACES - 1])
        more = " and more" if len(places) == _MOST_PLACES else ""
        why = "its counts are wrong" if hunk.recounted else f"not at line {hunk.old_start}"
        message = f"the hunk's lines stand in several places (lines {listed}{more}), and {why}"
        hint = "state the right line, or send more context"
        raise refused(Reason.HUNK_AMBIGUOUS, message, file=file.path, hunk=number, line=hunk.line, hint=hint)
    return places[0]


def _places(lines: Sequence[bytes], block: Sequence[bytes]) -> list[int]:
    """Where a block of whole lines stands, at most `_MOST_PLACES` of them; found by its rarest line."""
    counts = dict.fromkeys(block, 0)
    for line in lines:
        if line in counts:
            counts[line] += 1
    rarest = min(range(len(block)), key=lambda index: counts[block[index]])
    wanted, found = list(block), []
    for index, line in enumerate(lines):
        if line == block[rarest]:
            at = index - rarest
            if at >= 0 and list(lines[at : at + len(wanted)]) == wanted:
                found.append(at)
                if len(found) == _MOST_PLACES:
                    break
    return found


def _require_end(lines: Sequence[bytes], end: int, new: Sequence[bytes], file: FilePatch, number: int) -> None:
    if new and not new[-1].endswith(b"\n") and end < len(lines):
        message = "a line without newline would stand in the middle of the file"
        raise refused(Reason.HUNK_MISMATCH, message, file=file.path, hunk=number)


def _corrections(hunk: Hunk, true: Hunk, file: FilePatch, number: int) -> list[str]:
    notes = []
    if hunk.recounted:
        notes.append(f"{file.path}, hunk {number}: its header miscounted; its lines stand at {true.old_start} only")
    elif hunk.old_start != true.old_start and true.old():
        notes.append(
            f"{file.path}, hunk {number}: stated at line {hunk.old_start}, its lines stand at {true.old_start} only"
        )
    return notes


def _mismatch(lines: Sequence[bytes], hunk: Hunk, file: FilePatch, number: int) -> Exception:
    """The refusal of a hunk whose lines are not there, with the difference nearest to its stated place."""
    old = hunk.old()
    if not lines or not old:
        message = (
            "the hunk expects lines, but the file is empty" if not lines else "the hunk's place lies outside the file"
        )
        return refused(Reason.HUNK_MISMATCH, message, file=file.path, hunk=number, line=hunk.line)
    loose = _loose_place(lines, old)
    at = loose if loose is not None else _nearest(lines, old, hunk.old_start - 1)
    offset = next((i for i, line in enumerate(old) if lines[at + i : at + i + 1] != [line]), 0)
    found = lines[at + offset] if at + offset < len(lines) else b""
    evidence = [f"hunk expects  {_shown(old[offset])}", f"line {at + offset + 1} has  {_shown(found)}"]
    if loose is not None:
        message = "the hunk's lines are there in other white space or line ends only, and those are compared exactly"
    else:
        message = "the hunk's lines are not in the file"
    message += f"; at line {at + offset + 1} it expects {_shown(old[offset])} and there is {_shown(found)}"
    return refused(Reason.HUNK_MISMATCH, message, file=file.path, hunk=number, line=hunk.line, lines=evidence)


def _loose_place(lines: Sequence[bytes], old: Sequence[bytes]) -> int | None:
    """Where the hunk would stand if white space did not count: for the message only."""
    if len(lines) * len(old) > _MOST_COMPARED:
        return None
    words, wanted = [line.split() for line in lines], [line.split() for line in old]
    places = range(len(words) - len(wanted) + 1)
    return next((at for at in places if words[at : at + len(wanted)] == wanted), None)


def _nearest(lines: Sequence[bytes], old: Sequence[bytes], stated: int) -> int:
    """Where most of the hunk's first lines stand, near the stated place: for the message only."""
    known = [at for at, line in enumerate(lines) if line == old[0]]
    if known:
        return min(known, key=lambda at: (-_agreement(lines, old, at), abs(at - stated)))
    return max(0, min(stated, len(lines) - 1))


def _agreement(lines: Sequence[bytes], old: Sequence[bytes], at: int) -> int:
    return next((i for i, line in enumerate(old) if lines[at + i : at + i + 1] != [line]), len(old))


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").removesuffix("\n")
    end = "" if line.endswith(b"\n") or not line else " without a newline"
    return f"{printable(text)!r}{end}" if line else "nothing (the file has ended)"
