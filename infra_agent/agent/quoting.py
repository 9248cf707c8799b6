"""Text from outside, made data: it stands between marks that it cannot contain, without control characters.

Covered: short text within a line, longer text as a block whose every line is marked. A cut says how much it left out.
Not covered: what a model makes of it. The wall is that no action can approve, widen the scope or state a result.
"""

from __future__ import annotations

from infra_agent.harness.text import clean_line

_MARKS = str.maketrans({"«": "‹", "»": "›"})
_TAGS = str.maketrans({"<": "‹", ">": "›", "`": "'"})
BAR = "│ "


def inline(text: str, limit: int) -> str:
    """Text within a line: « and » around it, at most `limit` characters of it."""
    flat = " ".join(clean_line(line) for line in text.splitlines()).translate(_MARKS).translate(_TAGS).strip()
    if len(flat) > limit:
        flat = f"{flat[:limit]} … {len(flat) - limit} characters left out"
    return f"«{flat}»"


def block(text: str) -> str:
    """Several lines: a bar before each, so that no line of it can pass for one of ours."""
    return "\n".join(BAR + clean_line(line).translate(_MARKS) for line in text.splitlines())
