"""An assignment at the head of a loop that reads nothing of the loop is moved before it."""

from __future__ import annotations

import ast
from pathlib import Path


def propose(tree: Path, facts: dict) -> list[dict]:
    """One proposal for each loop that starts with such an assignment."""
    found = []
    for path in sorted(tree.rglob("*.py")):
        text = path.read_text()
        lines = text.splitlines(keepends=True)
        for loop in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.For)):
            first = loop.body[0]
            if not isinstance(first, ast.Assign) or not isinstance(first.value, ast.Call) or _depends(first, loop):
                continue
            moved = " " * loop.col_offset + lines[first.lineno - 1].lstrip()
            rest = [
                *lines[: loop.lineno - 1],
                moved,
                *lines[loop.lineno - 1 : first.lineno - 1],
                *lines[first.lineno :],
            ]
            found.append(
                {
                    "files": {path.relative_to(tree).as_posix(): "".join(rest)},
                    "claim": f"{path.name} line {first.lineno}: {ast.unparse(first)} is computed again in every pass",
                    "place": f"{path.name}:{first.lineno}",
                    "low": 2.0,
                    "high": 200.0,
                }
            )
    return found


def _depends(statement: ast.Assign, loop: ast.For) -> bool:
    bound = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    read = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    return bool(read & bound)
