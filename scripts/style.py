"""Size budgets of the house style: modules up to 400 lines, functions up to 60, and what the median is."""

from __future__ import annotations

import ast
import statistics
import sys
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60
ROOTS = ("infra_agent", "probes", "scripts")


def main() -> int:
    """Print the table; 1 when a budget is broken."""
    modules: dict[Path, int] = {}
    functions: list[tuple[int, str]] = []
    for path in sorted(file for root in ROOTS for file in Path(root).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        modules[path] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(
                    ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path}:{node.lineno} {node.name}")
                )
    long_modules = [f"{path}: {lines} lines" for path, lines in modules.items() if lines > MODULE_LINES]
    long_functions = [f"{where}: {lines} lines" for lines, where in functions if lines > FUNCTION_LINES]
    counts = list(modules.values())
    print(f"modules    {len(counts)}, median {statistics.median(counts):.0f} lines, longest {max(counts)}")
    sizes = [lines for lines, _ in functions]
    print(f"functions  {len(sizes)}, median {statistics.median(sizes):.0f} lines, longest {max(sizes)}")
    for line in long_modules + long_functions:
        print(f"too long: {line}")
    return 1 if long_modules or long_functions else 0


if __name__ == "__main__":
    sys.exit(main())
