"""Engine output made safe to show: control sequences removed, progress bars collapsed, known secrets masked.

Covered: ANSI and OSC sequences, control and bidi characters, invalid UTF-8, carriage-return progress bars.
Not covered: secrets that the harness does not hold itself, and secrets in an encoded form.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_LINE_CHARACTERS = 500


def clean_line(line: str, secrets: Collection[str] = ()) -> str:
    """One line without control sequences; of a redrawn line only its last state; secrets become `***`."""
    states = [state for state in _ESCAPES.sub("", line).split("\r") if state.strip()]
    text = _UNSAFE.sub("", states[-1] if states else "")
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text.rstrip()[:_LINE_CHARACTERS]


def clean_lines(data: bytes, count: int, secrets: Collection[str] = ()) -> tuple[str, ...]:
    """The last `count` non-empty lines of raw output, cleaned."""
    if count <= 0:
        return ()
    lines = (clean_line(line, secrets) for line in data.decode("utf-8", "replace").split("\n"))
    return tuple([line for line in lines if line][-count:])
