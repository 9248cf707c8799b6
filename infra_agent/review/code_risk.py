"""Risk class of a code change, derived from what its Python statements say before and after; the strictest reason wins.

Comments and docstrings alone are routine. What is not Python, or cannot be read, waits for a person. Everything else is
looked up in `code_rules`; what no rule knows is code without threads, precision, limits or outside effects: routine.

Covered: bodies, signatures, decorators, constants, imports, files that come, go or move.
Not covered: generated code, C and CUDA (a person decides); what a change does at a distance.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from infra_agent.review.code_diff import Difference, differences, parse_source
from infra_agent.review.code_rules import AROUND, BUILD_FILES, LOCKS, NUMERIC_LIBRARIES, RULES, Rule
from infra_agent.stack.engines.base import RiskClass

Finding = tuple[RiskClass, str]
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_DIGITS = re.compile(r"[A-Za-z]+[0-9]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_IMPORT_LINE = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][A-Za-z0-9_]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """One file before and after; None where it is not there. `path` is the new one, `was` the old one."""

    path: str
    was: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of the sources: do they compute with tensors, and which modules are their own."""

    numeric: bool
    own_modules: frozenset[str] = frozenset()


def code_risk(files: Iterable[ChangedFile], sources: Surroundings) -> tuple[Finding, ...]:
    """Every reason found, the strictest not necessarily first; never empty."""
    found = [finding for file in files for finding in _file_risk(file, sources)]
    return tuple(dict.fromkeys(found))


def imports_numbers(source: bytes) -> bool:
    """Whether a file imports a library that computes with tensors or arrays."""
    return any(match[1].decode() in NUMERIC_LIBRARIES for match in _IMPORT_LINE.finditer(source))


def _file_risk(file: ChangedFile, sources: Surroundings) -> Iterator[Finding]:
    name = file.path.rpartition("/")[2]
    if not file.path.endswith(".py") or not file.was.endswith(".py"):
        yield RiskClass.PRODUCTION, f"{file.path} is not Python: nothing could be told from it"
        return
    if name in BUILD_FILES:
        yield RiskClass.PRODUCTION, f"{file.path} builds, installs or starts something"
        return
    if file.before is not None and (file.after is None or file.path != file.was):
        verb = "deleted" if file.after is None else f"moved from {file.was}"
        yield RiskClass.PRODUCTION, f"{file.path} is {verb}: what imports it would break"
    if file.before is None and name.removesuffix(".py") in sys.stdlib_module_names | NUMERIC_LIBRARIES:
        yield RiskClass.PRODUCTION, f"{file.path} hides a module of the same name"
    before, after = parse_source(file.before or b""), parse_source(file.after or b"")
    if before is None or after is None:
        yield RiskClass.PRODUCTION, f"{file.path} cannot be read as Python"
        return
    changed = differences(before, after)
    if not changed:
        yield RiskClass.ROUTINE, f"{file.path}: comments, docstrings or layout only"
        return
    numeric = sources.numeric or imports_numbers(file.before or b"") or imports_numbers(file.after or b"")
    found = list(_findings(file, changed, sources, numeric))
    yield from found
    if not found:
        yield RiskClass.ROUTINE, f"{file.path}: code without precision, threads, memory, limits or outside effects"


def _findings(
    file: ChangedFile, changed: Sequence[Difference], sources: Surroundings, numeric: bool
) -> Iterator[Finding]:
    known = _imported(file.before or b"") | sources.own_modules
    rules = (*RULES, *_own_locks(file))
    for difference in changed:
        where = f"{file.path}:{difference.statement.line}"
        for rule in rules:
            if (numeric or not rule.numeric_only) and _holds(rule, difference):
                yield rule.risk, f"{where} {rule.why}"
        if difference.statement.in_async:
            yield RiskClass.CONCURRENCY, f"{where} runs on an event loop"
        if isinstance(difference.statement.node, _IMPORTS) and difference.side == "added":
            yield from _imports(difference.statement.node, where, known)
    yield from _moved(file, changed)
    yield from _surface(file, changed)


def _own_locks(file: ChangedFile) -> tuple[Rule, ...]:
    """A rule of the file's own: names that hold a lock, a queue or a pool, whatever they are called."""
    trees = [parse_source(text) for text in (file.before, file.after) if text is not None]
    names = frozenset(name.lower() for tree in trees if tree is not None for name in _holders(tree))
    return (
        (Rule(risk=RiskClass.CONCURRENCY, why="uses a lock, queue or pool of this file", names=names),) if names else ()
    )


def _holders(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Call):
            continue
        made = node.value.func
        name = made.attr if isinstance(made, ast.Attribute) else made.id if isinstance(made, ast.Name) else ""
        if LOCKS & _words(name):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from _names([target])


def _moved(file: ChangedFile, changed: Sequence[Difference]) -> Iterator[Finding]:
    """The same statement inside a `with` block before and outside it after, or the other way round."""
    blocks: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for difference in changed:
        statement = difference.statement
        held = tuple(block for block in statement.around if " of With" in block or " of AsyncWith" in block)
        blocks.setdefault((statement.text, statement.function), set()).add(held)
    if any(len(held) > 1 for held in blocks.values()):
        yield RiskClass.CONCURRENCY, f"{file.path} moves statements into or out of a with block"


def _holds(rule: Rule, difference: Difference) -> bool:
    statement = difference.statement
    around = statement.near if rule.risk in AROUND else ()
    nodes = (*statement.own, *(node for near in around for node in ast.walk(near)))
    if rule.nodes and any(isinstance(node, rule.nodes) for node in statement.own):
        return True
    for name in _names(nodes):
        if name.lower() in rule.names or rule.words & _words(name):
            return True
    # Where a whole function is about numbers, every line of it is.
    return rule.risk is RiskClass.NUMERICS and bool(rule.words & _words(statement.function))


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every name that the nodes hold, and every text that could be one."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword | ast.arg):
            yield node.arg or ""
        elif isinstance(node, ast.alias):
            yield from (node.name, node.asname or "")
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, _DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            yield node.name or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            yield node.value


def _words(name: str) -> frozenset[str]:
    """The parts of a name, in lower case: `maxTokens` and `max_tokens` are `max` and `tokens`; `fp16` stays whole."""
    return frozenset(word.lower() for word in (*_PARTS.findall(name), *_DIGITS.findall(name), *name.split("_")))


def _imports(node: ast.stmt, where: str, known: Collection[str]) -> Iterator[Finding]:
    if isinstance(node, ast.ImportFrom):
        modules = [] if node.level else [str(node.module).partition(".")[0]]
    elif isinstance(node, ast.Import):
        modules = [alias.name.partition(".")[0] for alias in node.names]
    else:
        modules = []
    for module in modules:
        if module not in sys.stdlib_module_names and module not in known:
            yield RiskClass.PRODUCTION, f"{where} needs {module}, a new dependency"


def _imported(source: bytes) -> frozenset[str]:
    return frozenset(match[1].decode() for match in _IMPORT_LINE.finditer(source))


def _surface(file: ChangedFile, changed: Sequence[Difference]) -> Iterator[Finding]:
    """What others rely on: public names, signatures, and the values that modules and classes start with."""
    added = {_defined(d) for d in changed if d.side == "added"} - {""}
    removed = {_defined(d) for d in changed if d.side == "removed"} - {""}
    for difference in changed:
        statement, name = difference.statement, _defined(difference)
        where = f"{file.path}:{statement.line}"
        if isinstance(statement.node, _DEFINITIONS):
            if difference.side == "removed" and statement.level != "function" and _is_public(name):
                verb = "changes the signature of" if name in added else "removes"
                yield RiskClass.PRODUCTION, f"{where} {verb} {name}, which others may use"
            elif difference.side == "added" and statement.node.decorator_list:
                yield RiskClass.PRODUCTION, f"{where} decorates {name}: that can change what it is"
        elif statement.level != "function" and not isinstance(statement.node, _IMPORTS):
            new_private = bool(name) and not _is_public(name) and name not in removed and difference.side == "added"
            if not new_private and file.before is not None:
                yield RiskClass.PRODUCTION, f"{where} changes a value or step outside any function: a default or limit"


def _defined(difference: Difference) -> str:
    """The dotted name that a statement gives a meaning to; empty for a statement that names nothing."""
    node, inside = difference.statement.node, difference.statement.function
    name = ""
    if isinstance(node, _DEFINITIONS):
        name = node.name
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        name = node.target.id
    return f"{inside}.{name}" if inside and name else name


def _is_public(name: str) -> bool:
    """No part of it is private; methods like `__init__` are public."""
    return all(not part.startswith("_") or part.endswith("__") for part in name.split("."))
