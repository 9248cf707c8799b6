"""A loop that adds into a float32 accumulator adds into a float64 one instead, and rounds once at the end."""

from __future__ import annotations

import re
from pathlib import Path

START = re.compile(r"^(\s*)(\w+) = np\.float32\(0\)$", re.MULTILINE)


def propose(tree: Path, facts: dict) -> list[dict]:
    """One proposal for each accumulator found."""
    found = []
    for path in sorted(tree.rglob("*.py")):
        text = path.read_text()
        for match in START.finditer(text):
            name = match[2]
            step = f"{name} = np.float32({name} + value)"
            if step not in text or f"return {name}\n" not in text:
                continue
            wide = text.replace(match[0], f"{match[1]}{name} = np.float64(0)")
            wide = wide.replace(step, f"{name} = {name} + value")
            wide = wide.replace(f"return {name}\n", f"return np.float32({name})\n")
            line = text[: match.start()].count("\n") + 1
            found.append(
                {
                    "files": {path.relative_to(tree).as_posix(): wide},
                    "claim": f"{path.name} line {line}: the float32 accumulator rounds once for each value",
                    "place": f"{path.name}:{line}",
                    "low": 2.0,
                    "high": 100.0,
                }
            )
    return found
