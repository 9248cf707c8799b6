"""Why a patch was refused: a closed list of reasons, each raised with file, hunk and line of the diff.

Covered: building the one error type of this package.
Not covered: the checks themselves (`diff_reader`, `patch`, `validate`, `apply`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from infra_agent.errors import ChangeRefused

_SHOWN = 160


class Reason(StrEnum):
    """Every way in which a patch can be refused."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    NO_EFFECT = "no_effect"
    ABSOLUTE_PATH = "absolute_path"
    PARENT_PATH = "parent_path"
    BAD_PATH = "bad_path"
    GIT_PATH = "git_path"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    MODE_CHANGE = "mode_change"
    BINARY = "binary"
    COPY = "copy"
    CASE_COLLISION = "case_collision"
    TWICE = "twice"
    OUT_OF_SCOPE = "out_of_scope"
    PROTECTED = "protected"
    NO_SUCH_FILE = "no_such_file"
    EXISTS = "exists"
    HUNK_MISMATCH = "hunk_mismatch"
    HUNK_AMBIGUOUS = "hunk_ambiguous"


def refused(
    reason: Reason,
    message: str,
    *,
    file: str = "",
    hunk: int = 0,
    line: int = 0,
    hint: str = "",
    lines: Sequence[str] = (),
) -> ChangeRefused:
    """The error for a reason. `hunk` counts from 1 within its file, `line` from 1 within the diff; 0: none."""
    parts = [printable(file)] if file else []
    parts += [f"hunk {hunk}"] if hunk else []
    parts += [f"line {line} of the diff"] if line else []
    return ChangeRefused(message, reason=reason.value, where=", ".join(parts), hint=hint, lines=lines)


def printable(text: str) -> str:
    """A line or path of a diff as it may stand in a message: nothing unprintable, on one line, cut."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[: _SHOWN + 1])
    return shown if len(text) <= _SHOWN else f"{shown[:_SHOWN]}…"
