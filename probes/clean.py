"""Text of other programs made safe to show: the one sanitiser of terminals, reports, prompts and logs.

Covered: ANSI and OSC sequences (7-bit and 8-bit, unterminated ones too), control characters, characters that change
the direction or are invisible, lone surrogates, overlong text; and JSON that is escaped instead of altered.
Not covered: look-alike letters, markup (rich, HTML and prompts escape that themselves), secrets (`infra_agent.redact`).
"""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST_LINE = 10_000
"""Characters of one line that are shown; a reproduction command stays whole."""
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])"
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    rf"|{_STRING}[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|(?=\x1b)|$)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?",
    re.MULTILINE,
)
_FORMAT = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_EMPTY_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10)))
"""Printable by name, yet they show nothing."""
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_INVISIBLE = re.compile(f"[{_CONTROL}{_FORMAT}{_EMPTY_LETTERS}]")
"""Everything that shows nothing or acts on a terminal. Tab and line feed are left."""


def clean(text: str, longest: int | None = LONGEST_LINE) -> str:
    """The text without control sequences and invisible characters; each line cut at `longest` with what is missing."""
    bare = strip(text)
    if longest is None or len(bare) <= longest:
        return bare
    return "\n".join(_cut(line, longest) for line in bare.split("\n"))


def strip(text: str) -> str:
    """The text without control sequences and invisible characters, of any length."""
    return _INVISIBLE.sub("", _SEQUENCES.sub("", text)) if suspicious(text) else text


def suspicious(text: str) -> bool:
    """Whether the text holds anything that `strip` removes."""
    if text.replace("\n", " ").replace("\t", " ").isprintable():
        return not text.isascii() and _has_empty_letters(text)
    return _INVISIBLE.search(text) is not None


def _has_empty_letters(text: str) -> bool:
    # Plane 14 holds nothing that can be seen; in UTF-8 it is found as fast as memory is read.
    return b"\xf3\xa0" in text.encode("utf-8", "surrogatepass") or any(letter in text for letter in _EMPTY_LETTERS)


def one_line(text: str, longest: int | None = LONGEST_LINE) -> str:
    """The text as one line: what follows a line break cannot pose as a line of our own."""
    return clean(" ".join(text.split("\n")), longest).replace("\t", " ")


def to_json(document: Any, *, indent: int | None = 2) -> str:
    """JSON that reads back as it was, with every character that acts on a terminal written as an escape."""
    return escaped(json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=False))


def escaped(json_text: str) -> str:
    """JSON text with every character that acts on a terminal as an escape; it means the same."""
    return _INVISIBLE.sub(_escape, json_text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _cut(line: str, longest: int) -> str:
    return line if len(line) <= longest else f"{line[:longest]} … ({len(line) - longest} more characters)"
