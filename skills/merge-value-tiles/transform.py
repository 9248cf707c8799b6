"""Merges the value tiles of a recurrent decode kernel into one program: `propose(tree, facts)` gives unified diffs.

Applies to a launcher that fixes the value tile to a number (`BV = 32`, or `min(next_power_of_2(V), 32)`), makes one
program of every tile, and starts a kernel whose set-up does not depend on the tile. The diff widens the tile to the
whole value dimension and sets the number of warps that the compiler needs for it.
Facts: `reuse` (reuse factor of the shared operands), `value_tile` (their tile), `legal` ([{"value_tile", "warps",
"spill_bytes"}]), `value_dim`. Nothing is proposed unless the set-up is repeated at least twice and some choice of warps
holds the whole value dimension without spills.
Covered: FLA's recurrent kernels and others of that shape. Not covered: kernels that need a tiling along keys.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LEAST_REUSE = 2.0


def propose(tree: Path, facts: Mapping[str, Any]) -> list[str]:
    """Unified diffs against files below `tree`; none when the facts do not speak for it."""
    warps = _warps(facts)
    if warps is None or float(facts.get("reuse", 0.0)) < LEAST_REUSE:
        return []
    found = []
    for path in sorted(tree.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if "BV" not in text or "num_warps" not in text or str(facts.get("kernel", "")) not in text:
            continue
        changed = _merged(text, str(facts.get("kernel", "")), warps)
        if changed != text:
            name = path.relative_to(tree).as_posix()
            diff = difflib.unified_diff(
                text.splitlines(keepends=True), changed.splitlines(keepends=True), f"a/{name}", f"b/{name}"
            )
            found.append("".join(diff))
    return found


def _warps(facts: Mapping[str, Any]) -> int | None:
    """Fewest warps that hold the whole value dimension without spills."""
    whole = int(facts.get("value_dim", 0))
    legal = [
        int(one["warps"])
        for one in facts.get("legal", ())
        if int(one["value_tile"]) >= whole and int(one["spill_bytes"]) == 0
    ]
    return min(legal) if whole and legal else None


def _merged(text: str, kernel: str, warps: int) -> str:
    lines = text.splitlines(keepends=True)
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        launches = [node for node in ast.walk(function) if _launches(node, kernel)]
        tiles = [node for node in ast.walk(function) if _fixed_tile(node)]
        if len(launches) != 1 or len(tiles) != 1:
            continue
        tile = tiles[0]
        indent = lines[tile.lineno - 1][: tile.col_offset]
        lines[tile.lineno - 1] = f"{indent}BV = triton.next_power_of_2(V)\n"
        for keyword in launches[0].keywords:
            if keyword.arg == "num_warps":
                row = keyword.value.lineno - 1
                line = lines[row]
                lines[row] = line[: keyword.value.col_offset] + str(warps) + line[keyword.value.end_col_offset :]
    return "".join(lines)


def _launches(node: ast.AST, kernel: str) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
        return False
    name = node.func.value
    return isinstance(name, ast.Name) and (not kernel or name.id == kernel)


def _fixed_tile(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or node.lineno != node.end_lineno:
        return False
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Name) or target.id != "BV":
        return False
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int)
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "min"
        and any(isinstance(part, ast.Constant) for part in value.args)
    )  # fmt: skip
