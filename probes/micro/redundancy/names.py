"""Inside the stack's interpreter: what the kernel's source calls an index variable.

Covered: `name = expression`, and one name of a tuple assignment. Not covered: expressions that are never given a name.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any


class Names:
    """Names of the expressions of one function, by place in its file."""

    def __init__(self, function: Any) -> None:
        lines, first = inspect.getsourcelines(function)
        text = textwrap.dedent("".join(lines))
        self._shift = first - 1
        self._assigned: list[tuple[ast.expr, str]] = []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assigned += _pairs(node.targets[0], node.value)

    def of(self, place: tuple[int, int, int]) -> str:
        """The name of the smallest assigned expression around a place (line, column, end); empty when there is none."""
        line, column = place[0] - self._shift, place[1]
        around = [
            ((value.end_lineno or 0) - value.lineno, (value.end_col_offset or 0) - value.col_offset, name)
            for value, name in self._assigned
            if (value.lineno, value.col_offset) <= (line, column) < (value.end_lineno or 0, value.end_col_offset or 0)
        ]
        return min(around)[2] if around else ""


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, str]]:
    if isinstance(target, ast.Name):
        return [(value, target.id)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [pair for one, part in zip(target.elts, value.elts, strict=True) for pair in _pairs(one, part)]
    return []
