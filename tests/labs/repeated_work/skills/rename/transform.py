"""A red herring: another name for the same value."""

from __future__ import annotations

from pathlib import Path


def propose(tree: Path, facts: dict) -> list[dict]:
    """Rename `scale` where it is computed in the loop."""
    path = tree / "rows.py"
    text = path.read_text()
    if "        scale = weight(table)" not in text:
        return []
    claim = "rows.py: the scale under another name"
    return [{"files": {"rows.py": text.replace("scale", "divisor")}, "claim": claim, "low": 0.9, "high": 1.1}]
