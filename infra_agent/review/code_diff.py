"""What two versions of a Python file differ in, statement by statement, with what stands around each statement.

A statement is compared together with its surroundings: the blocks, functions and classes that it stands in. So a line
that moves out of a `with lock:` differs although its own words are the same.

Covered: everything that Python executes; comments, layout and docstrings are no difference.
Not covered: what a difference means (`code_rules`).
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try, ast.TryStar, ast.Match)
_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement with its surroundings. `text` and `around` decide whether two are the same.

    `own` are the nodes of the statement itself, of a block its first line only; `near` those of the `with` blocks and
    decorators around it. `function`: dotted name of the function or class that it stands in, empty at module level.
    """

    text: str
    around: tuple[str, ...]
    function: str
    level: Literal["module", "class", "function"]
    line: int
    node: ast.stmt | ast.excepthandler | ast.match_case = field(compare=False)
    own: tuple[ast.AST, ...] = field(compare=False)
    near: tuple[ast.AST, ...] = field(compare=False)
    in_async: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """Two statements of the same key are the same."""
        return (self.text, self.function, *self.around)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A statement that is there on one side only."""

    side: Literal["removed", "added"]
    statement: Statement


def parse_source(source: bytes) -> ast.Module | None:
    """The syntax tree; None when this Python cannot read it."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def differences(before: ast.Module, after: ast.Module) -> tuple[Difference, ...]:
    """All statements that differ, the old side's first within each place."""
    old, new = list(_statements(before)), list(_statements(after))
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a.key != b.key), min(len(old), len(new)))
    old, new = old[first:], new[first:]
    last = next(
        (i for i, (a, b) in enumerate(zip(reversed(old), reversed(new), strict=False)) if a.key != b.key),
        min(len(old), len(new)),
    )
    old, new = old[: len(old) - last], new[: len(new) - last]
    matcher = difflib.SequenceMatcher(None, [s.key for s in old], [s.key for s in new], autojunk=False)
    found: list[Difference] = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            found += [Difference(side="removed", statement=statement) for statement in old[a:b]]
            found += [Difference(side="added", statement=statement) for statement in new[c:d]]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Place:
    around: tuple[str, ...] = ()
    function: str = ""
    level: Literal["module", "class", "function"] = "module"
    near: tuple[ast.AST, ...] = ()
    in_async: bool = False


def _statements(tree: ast.Module) -> Iterator[Statement]:
    yield from _inside(_without_docstring(tree.body), _Place())


def _inside(nodes: Sequence[ast.AST], place: _Place) -> Iterator[Statement]:
    for node in nodes:
        if not isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            continue
        own = tuple(_own_nodes(node))
        yield Statement(
            text=_text(node),
            around=place.around,
            function=place.function,
            level=place.level,
            line=getattr(node, "lineno", 0) or _first_line(own),
            node=node,
            own=own,
            near=place.near,
            in_async=place.in_async,
        )
        for name in _BODIES:
            below = getattr(node, name, None)
            if isinstance(below, list) and below:
                yield from _inside(_without_docstring(below), _place_in(node, name, place))


def _place_in(node: ast.AST, body: str, place: _Place) -> _Place:
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        name = f"{place.function}.{node.name}" if place.function else node.name
        is_class = isinstance(node, ast.ClassDef)
        return _Place(
            around=place.around,
            function=name,
            level="class" if is_class else "function",
            near=(*place.near, *node.decorator_list),
            in_async=isinstance(node, ast.AsyncFunctionDef),
        )
    near = tuple(item.context_expr for item in node.items) if isinstance(node, ast.With | ast.AsyncWith) else ()
    return _Place(
        around=(*place.around, f"{body} of {_text(node)}"),
        function=place.function,
        level=place.level,
        near=(*place.near, *near),
        in_async=place.in_async or isinstance(node, ast.AsyncWith | ast.AsyncFor),
    )


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The node and everything in it that is not another statement."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in _BODIES and not isinstance(node, ast.Lambda | ast.IfExp):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _own_nodes(child)


def _text(node: ast.AST) -> str:
    """The statement's code; of a block its first line."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef, *_BLOCKS, ast.excepthandler, ast.match_case)):
        fields = [(name, value) for name, value in ast.iter_fields(node) if name not in _BODIES]
        shown = [f"{name}={_dump(value)}" for name, value in fields]
        return f"{type(node).__name__} {' '.join(shown)}"
    return ast.dump(node)


def _dump(value: object) -> str:
    if isinstance(value, ast.AST):
        return ast.dump(value)
    return f"[{', '.join(map(_dump, value))}]" if isinstance(value, list) else repr(value)


def _first_line(nodes: Sequence[ast.AST]) -> int:
    return next((node.lineno for node in nodes if hasattr(node, "lineno")), 0)


def _without_docstring(body: Sequence[ast.AST]) -> Sequence[ast.AST]:
    """Texts that stand alone do nothing, wherever they stand."""
    return [
        node
        for node in body
        if not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
    ]
