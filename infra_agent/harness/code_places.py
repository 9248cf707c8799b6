"""The places that a patch changes in Python files, and the lines whose execution proves that each is in use.

A changed line inside a function is proved by that statement, or, where nothing of it can be executed (a line was
removed, a signature was changed), by any line of the function's body. A function that is never called proves nothing.

Covered: functions, statements of modules and classes, imports; files that this Python cannot parse, line by line.
Not covered: whether an executed line did what was meant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from infra_agent.changes.patch import FilePatch, Side

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_HEADED = (*_FUNCTIONS, ast.ClassDef)
Kind = Literal["function", "statement", "import"]
STRONGEST: tuple[Kind, ...] = ("function", "statement", "import")
"""Which kind of place proves a patch: an import runs always, so it counts only where there is nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One changed place: how people find it, and the lines of the new file of which one must be executed."""

    file: str
    name: str
    line: int
    kind: Kind
    proof: frozenset[int]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.name})" if self.name else f"{self.file}:{self.line}"


def places_of(file: FilePatch, after: bytes) -> tuple[Place, ...]:
    """The changed places of a file that stays, each function once. `after` is its new text."""
    changed = list(_changed_lines(file))
    changed = [change for change in changed if change.says] or changed
    try:
        tree = ast.parse(after)
    except (SyntaxError, ValueError, RecursionError):
        lines = frozenset(change.line for change in changed)
        return (Place(file=file.path, name="", line=min(lines, default=1), kind="statement", proof=lines),)
    if not changed:
        whole = frozenset(range(1, after.count(b"\n") + 2))
        return (Place(file=file.path, name="", line=1, kind="statement", proof=whole),)
    found: dict[tuple[Kind, str], Place] = {}
    for change in changed:
        place = _place(tree, file.path, change)
        key = (place.kind, place.name or str(place.line))
        found[key] = replace(found[key], proof=found[key].proof | place.proof) if key in found else place
    return tuple(found.values())


class _Changed(NamedTuple):
    """A line that was added, or the line in front of which one was removed. `indented`: the changed line was.

    `says`: it holds more than space or a comment.
    """

    line: int
    added: bool
    indented: bool
    says: bool


def _changed_lines(file: FilePatch) -> Iterator[_Changed]:
    """What changed, by line numbers of the new file. Lines that took the place of others stand for both."""
    for hunk in file.hunks:
        number = hunk.new_start if hunk.new() else hunk.new_start + 1
        run: list[_Changed] = []
        for line in hunk.lines:
            if line.side is Side.CONTEXT:
                yield from _standing_for(run)
                run = []
            else:
                indented, text = line.content[:1] in (b" ", b"\t"), line.content.strip()
                says = bool(text) and not text.startswith(b"#")
                run.append(_Changed(number, line.side is Side.ADDED, indented, says))
            number += line.side is not Side.REMOVED
        yield from _standing_for(run)


def _standing_for(run: Sequence[_Changed]) -> Sequence[_Changed]:
    return [change for change in run if change.added] or run


def _place(tree: ast.Module, file: str, change: _Changed) -> Place:
    # A removed line stood behind the one in front of it: in the same function, unless it was not indented.
    behind = max(1, change.line - 1) if not change.added and change.indented else change.line
    function, name = _innermost(tree.body, behind, "")
    if function is None and behind != change.line:
        function, name = _innermost(tree.body, change.line, "")
    if function is not None and (change.added or change.indented):
        own = _statement_lines(function.body, change.line) if change.added else frozenset()
        in_body = bool(own) and change.line >= function.body[0].lineno
        proof = own if in_body else _all_lines(function.body)
        return Place(file=file, name=name, line=change.line, kind="function", proof=proof)
    statement = _statement_at(tree.body, change.line) if change.added else None
    if statement is None:
        anything = _all_lines(tree.body) or frozenset({1})
        return Place(file=file, name="", line=change.line, kind="import", proof=anything)
    kind: Kind = "import" if isinstance(statement, ast.Import | ast.ImportFrom) else "statement"
    return Place(file=file, name="", line=change.line, kind=kind, proof=_own_lines(statement))


def _innermost(
    body: Sequence[ast.AST], line: int, outer: str
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, str]:
    """The innermost function whose decorators, signature or body hold the line, with its dotted name."""
    for node in body:
        if not _spans(node, line):
            continue
        name = f"{outer}.{node.name}" if outer and isinstance(node, _HEADED) else getattr(node, "name", None) or outer
        inner, inner_name = _innermost(list(ast.iter_child_nodes(node)), line, name)
        if inner is not None:
            return inner, inner_name
        if isinstance(node, _FUNCTIONS):
            return node, name
    return None, outer


def _spans(node: ast.AST, line: int) -> bool:
    first = min([getattr(node, "lineno", 0), *(d.lineno for d in getattr(node, "decorator_list", []))])
    return bool(first <= line <= (getattr(node, "end_lineno", None) or 0))


def _statement_lines(body: Sequence[ast.stmt], line: int) -> frozenset[int]:
    statement = _statement_at(body, line)
    return _own_lines(statement) if statement is not None else frozenset()


def _statement_at(body: Sequence[ast.AST], line: int) -> ast.stmt | None:
    """The innermost statement that holds the line; None for one between statements."""
    for node in body:
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            inner = _statement_at(list(ast.iter_child_nodes(node)), line)
            if inner is not None:
                return inner
            if isinstance(node, ast.stmt) and not _is_text(node) and _spans(node, line) and line in _own_lines(node):
                return node
    return None


def _own_lines(statement: ast.stmt) -> frozenset[int]:
    """Lines of a statement; of a block those of its head."""
    body = getattr(statement, "body", None)
    end = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno or statement.lineno
    return frozenset(range(statement.lineno, max(end, statement.lineno) + 1))


def _all_lines(body: Sequence[ast.stmt]) -> frozenset[int]:
    """All lines of a body but its docstring's, which nothing executes."""
    rest = [statement for statement in body if not _is_text(statement)] or body
    return frozenset(n for s in rest for n in range(s.lineno, (s.end_lineno or s.lineno) + 1))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
