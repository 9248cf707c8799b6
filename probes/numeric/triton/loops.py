"""Loop variables of interpreted kernels as Triton's compiler sees them.

`for i in range(n)` gives a kernel a 32-bit scalar when it is compiled, and a plain int when it is interpreted, on which
`i.to(tl.int64)` fails.

Covered: loops over `range` whose variable is asked for an attribute; all other loops keep the faster plain int.
Not covered: `while` loops (their variables are assigned, which Triton's own rewriting covers).
"""

from __future__ import annotations

import ast
from typing import Any


def with_loop_scalars(stock: type[ast.NodeTransformer]) -> ast.NodeTransformer:
    """Triton's own rewriting of a kernel's source, and this one."""

    def visit_For(self: Any, node: ast.For) -> ast.For:
        name = node.target.id if isinstance(node.target, ast.Name) and _over_range(node.iter) else None
        needed = name is not None and any(_asks(inner, name) for inner in ast.walk(node))
        self.generic_visit(node)
        if name is not None and needed:
            node.body.insert(0, ast.copy_location(_scalar(name), node.body[0]))
        return node

    transformer: ast.NodeTransformer = type("LoopScalars", (stock,), {"visit_For": visit_For})()
    return transformer


def _over_range(iterated: ast.expr) -> bool:
    """`range(...)` and `tl.range(...)`, but not `tl.static_range(...)`: that gives constants."""
    if not isinstance(iterated, ast.Call):
        return False
    function = iterated.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) == "range"


def _asks(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


def _scalar(name: str) -> ast.stmt:
    """`name = interpreter_semantic.to_tensor(name, False)`, as Triton rewrites assignments."""
    return ast.parse(f"{name} = interpreter_semantic.to_tensor({name}, False)").body[0]
