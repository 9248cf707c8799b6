"""The C++ syntax tree, and the few questions that everything else asks of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

FUNCTION_KINDS = frozenset({"function_definition", "lambda_expression"})
LOOPS = frozenset({"while_statement", "for_statement", "do_statement", "for_range_loop"})
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_cpp.language())


def parse(text: str) -> Node:
    """The root of the tree of one file. What cannot be parsed becomes ERROR nodes; the rest stays usable."""
    return Parser(_language()).parse(text.encode("utf-8", "surrogatepass")).root_node


def text_of(node: Node | None) -> str:
    """Source text of a node on one line; "" for none."""
    if node is None or node.text is None:
        return ""
    return _SPACE.sub(" ", node.text.decode("utf-8", "replace")).strip()


def line_of(node: Node) -> int:
    """First line, from 1."""
    return int(node.start_point[0]) + 1


def field(node: Node | None, name: str) -> Node | None:
    """A named child, or None."""
    return node.child_by_field_name(name) if node is not None else None


def descend(node: Node, *, into_functions: bool = True) -> Iterator[Node]:
    """The node and all below it, in source order; without `into_functions`, not into lambdas and local functions."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if into_functions or current is node or current.type not in FUNCTION_KINDS:
            stack += reversed(current.named_children)


def arguments_of(call: Node) -> list[Node]:
    """Arguments of a call or an initialiser, comments left out."""
    holder = field(call, "arguments")
    return [] if holder is None else [child for child in holder.named_children if child.type != "comment"]


def bare(node: Node | None) -> Node | None:
    """The expression without parentheses and casts."""
    while node is not None:
        if node.type in ("parenthesized_expression", "condition_clause"):
            inner = field(node, "value") or next((c for c in node.named_children if c.type != "comment"), None)
        elif node.type == "cast_expression":
            inner = field(node, "value")
        elif node.type == "call_expression" and _is_cast(field(node, "function")):
            inner = next(iter(arguments_of(node)), None)
        else:
            return node
        if inner is None:
            return node
        node = inner
    return None


def _is_cast(function: Node | None) -> bool:
    return (
        function is not None and re.match(r"(static|reinterpret|const|dynamic)_cast\b", text_of(function)) is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """What a call names: `a::b::f<T>` has the path (a, b, f); `x.f` and `x->f` have the receiver x."""

    path: tuple[str, ...]
    receiver: Node | None = None
    templates: str = ""

    @property
    def name(self) -> str:
        """The last part."""
        return self.path[-1] if self.path else ""

    @property
    def qualified(self) -> str:
        """All parts."""
        return "::".join(self.path)


def callee_of(function: Node | None) -> Callee:
    """Reads the function part of a call."""
    function = bare(function)
    if function is None:
        return Callee(path=())
    if function.type == "field_expression":
        named = callee_of(field(function, "field"))
        return Callee(path=named.path, receiver=field(function, "argument"), templates=named.templates)
    return Callee(path=path_of(function), templates=_templates(function))


def path_of(node: Node | None) -> tuple[str, ...]:
    """Parts of a possibly qualified name; template arguments left out, a leading `::` as an empty part."""
    if node is None:
        return ()
    if node.type == "qualified_identifier":
        scope = field(node, "scope")
        return (*(path_of(scope) if scope is not None else ("",)), *path_of(field(node, "name")))
    if node.type in ("template_function", "template_type", "template_method"):
        return path_of(field(node, "name"))
    if node.type == "dependent_name":
        return path_of(node.named_children[-1])
    if node.type in ("identifier", "type_identifier", "namespace_identifier", "field_identifier", "destructor_name",
                     "operator_name", "primitive_type", "sized_type_specifier"):  # fmt: skip
        return (text_of(node),)
    return ()


def _templates(node: Node) -> str:
    return next((text_of(n) for n in descend(node) if n.type == "template_argument_list"), "")


def enclosing(node: Node, kinds: frozenset[str] | tuple[str, ...]) -> Node | None:
    """The nearest node of one of these kinds around this one."""
    current = node.parent
    while current is not None and current.type not in kinds:
        current = current.parent
    return current


def declared_name(declarator: Node | None) -> str:
    """The name that a declarator introduces, without pointers, references, arrays and initialisers."""
    node = name_node(declarator)
    return text_of(node) if node is not None else ""


def name_node(declarator: Node | None) -> Node | None:
    """The node of the declared name."""
    while declarator is not None and declarator.type not in (
        "identifier", "field_identifier", "qualified_identifier", "destructor_name", "operator_name", "type_identifier",
        "template_function", "operator_cast",
    ):  # fmt: skip
        inner = field(declarator, "declarator")
        if inner is None:
            named = declarator.named_children
            inner = named[-1] if named and declarator.type in ("reference_declarator", "pointer_declarator") else None
        declarator = inner
    return declarator
