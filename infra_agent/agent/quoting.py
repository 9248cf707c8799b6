"""Text from outside, made data: it stands between marks that it cannot contain, without control characters.

Covered: short text within a line, longer text as a block whose every line is marked; control, format and direction
characters and lone surrogates taken out. A cut says how much it left out.
Not covered: what a model makes of it. The wall is that no action can approve, widen the scope or state a result.
"""

from __future__ import annotations

import re
import unicodedata

_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\].*?(?:\x07|\x1b\\|$)")
"""What terminals act on: colours, cursor, titles."""
_MARKS = str.maketrans({"«": "‹", "»": "›"})
_TAGS = str.maketrans({"<": "‹", ">": "›", "`": "'"})
BAR = "│ "
LINE_CHARACTERS = 2_000
"""A longer line of a block is cut, and says so."""


def plain(text: str) -> str:
    """One line without characters that act instead of being read; a tab becomes a space."""
    text = _SEQUENCES.sub("", text)
    return "".join(" " if c == "\t" else c for c in text if c == "\t" or unicodedata.category(c)[0] != "C")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, and how many more there were."""
    return text if len(text) <= limit else f"{text[:limit]} … {len(text) - limit} characters left out"


def inline(text: str, limit: int) -> str:
    """Text within a line: « and » around it, at most `limit` characters of it."""
    flat = " ".join(plain(line) for line in text.splitlines()).translate(_MARKS).translate(_TAGS).strip()
    return f"«{cut(flat, limit)}»"


def block(text: str) -> str:
    """Several lines: a bar before each, so that no line of it can pass for one of ours."""
    return "\n".join(BAR + cut(plain(line), LINE_CHARACTERS).translate(_MARKS) for line in text.splitlines())
