"""Native callables that Python can call: pybind11, nanobind and CPython tables.

Covered: `.def*` on modules and classes with functions, methods, lambdas, overload casts, wrappers that return a lambda;
properties; constructors and destructors of bound classes; PyMethodDef tables; type slots.
Not covered: Cython, SWIG, Boost.Python; TORCH_LIBRARY operators (their caller has let go of the GIL already).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tree_sitter import Node

from probes.static.gil_scan import names
from probes.static.gil_scan.index import Function, Index, Unit, parameters_of
from probes.static.gil_scan.model import Export, Place
from probes.static.gil_scan.syntax import (
    arguments_of,
    bare,
    callee_of,
    declared_name,
    descend,
    enclosing,
    field,
    line_of,
    path_of,
    text_of,
)

_DEF = re.compile(r"^def(_\w+)?$")
_CLASS = re.compile(r"\bclass_\s*<\s*([\w:]+)")
_SLOT = re.compile(r"^(Py_)?(tp|nb|sq|mp|am|bf)_\w+$")


_UNWRAPPED = frozenset({
    "cpp_function", "function", "mem_fn", "bind", "bind_front", "ref", "cref", "overload_cast", "const_", "is_method",
})  # fmt: skip


class Binding(NamedTuple):
    """One `.def` on the way to its function."""

    name: str
    scope: str
    guard: str
    kind: str
    at: Place

    def export(self, function: str, target: Node, scope: str, bound: Mapping[str, Node] | None = None) -> Export:
        """The export of a function or lambda."""
        return Export(
            name=self.name, function=function, kind=self.kind, at=self.at, target=target, scope=scope,
            guard=self.guard, parameters=parameters_of(target), bound=dict(bound or {}),
        )  # fmt: skip


class Exports:
    """Finds exports; `unseen` collects names whose body is not in the scanned files."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._kinds: dict[str, str] = {}
        self.unseen: list[str] = []

    def find(self) -> list[Export]:
        """All exports in source order."""
        return [export for unit in self._index.units for export in self._of_unit(unit)]

    def _of_unit(self, unit: Unit) -> Iterator[Export]:
        for node in descend(unit.root):
            if node.type == "call_expression":
                yield from self._of_call(node, unit)
            elif node.type == "initializer_list":
                yield from self._of_table(node, unit)

    def _of_call(self, call: Node, unit: Unit) -> Iterator[Export]:
        callee = callee_of(field(call, "function"))
        if callee.name == "class_" and callee.path[:-1] and callee.path[0] in names.NAMESPACES:
            yield from self._destructor(callee.templates, call, unit)
        if callee.receiver is None or not _DEF.match(callee.name):
            return
        arguments = arguments_of(call)
        if not arguments:
            return
        scope = self._bound_class(callee.receiver, call)
        guard = self._guard(arguments)
        first = arguments[0]
        if first.type == "call_expression":
            inner = callee_of(field(first, "function"))
            if inner.name == "init":
                yield from self._constructor(first, inner.templates, scope, guard, call, unit)
                return
            if inner.templates.startswith("<") and inner.name in ("init_implicit",):
                return
        name = text_of(first).strip('"') if "string_literal" in first.type else text_of(first)
        for argument in arguments[1:]:
            if "string_literal" not in argument.type:
                yield from self._callable(argument, name, scope, guard, call, unit)

    def _bound_class(self, receiver: Node, call: Node) -> str:
        """The class of `py::class_<C>(m, …).def(…)` or of `cls.def(…)`, else ""."""
        node: Node | None = receiver
        while node is not None:
            match = _CLASS.search(text_of(field(node, "function")) if node.type == "call_expression" else "")
            if match:
                return match[1].split("::")[-1]
            if node.type == "identifier":
                return self._class_of_variable(text_of(node), call)
            callee = callee_of(field(node, "function")) if node.type == "call_expression" else None
            node = callee.receiver if callee is not None else None
        return ""

    def _class_of_variable(self, name: str, call: Node) -> str:
        around = enclosing(call, ("function_definition",))
        for node in descend(around) if around is not None else ():
            if node.type == "declaration":
                declarators = [c for i, c in enumerate(node.children) if node.field_name_for_child(i) == "declarator"]
                if name in [declared_name(d) for d in declarators] and (match := _CLASS.search(text_of(node))):
                    return match[1].split("::")[-1]
        return ""

    def _guard(self, arguments: list[Node]) -> str:
        """The GIL effect of `call_guard<…>` among the arguments; a variable that holds one is looked up."""
        for argument in arguments:
            text = text_of(argument)
            if argument.type == "identifier":
                text = self._initialiser(argument) or text
            match = re.search(r"call_guard\s*<(.*)>\s*\(", text)
            if match and not text.startswith("["):
                parts = re.split(r",(?![^<]*>)", match[1])
                effects = [effect for part in parts if (effect := self._index.guard(part.strip()))]
                return effects[-1] if effects else ""
        return ""

    def _initialiser(self, name: Node) -> str:
        around = enclosing(name, ("function_definition", "translation_unit"))
        root = around
        while root is not None and root.parent is not None:
            root = root.parent
        for where in (around, root):
            for node in descend(where) if where is not None else ():
                if node.type == "init_declarator" and declared_name(node) == text_of(name):
                    return text_of(field(node, "value")) or text_of(node)
        return ""

    def _callable(self, node: Node, name: str, scope: str, guard: str, call: Node, unit: Unit) -> Iterator[Export]:
        """Exports of one argument of a `.def`: a function, a lambda, or something around one."""
        node = bare(node) or node
        made = Binding(name, scope, guard, self._kind(unit), Place(file=unit.name, line=_name_line(call)))
        if node.type == "call_expression":
            yield from self._around(node, made, call, unit)
        elif node.type == "lambda_expression":
            yield made.export(f"lambda for {name}", node, scope)
        elif node.type == "compound_literal_expression":
            yield from self._functor(text_of(field(node, "type")), made)
        elif node.type == "identifier" and (variable := self._lambda_variable(node)) is not None:
            yield made.export(text_of(node), variable, scope)
        elif node.type in ("pointer_expression", "identifier", "qualified_identifier", "template_function"):
            path = path_of(field(node, "argument") if node.type == "pointer_expression" else node)
            if path:
                yield from self._named(path, made, node)

    def _around(self, node: Node, made: Binding, call: Node, unit: Unit) -> Iterator[Export]:
        """A call as argument: a cast or wrapper of the library's, a functor, or a function that returns a lambda."""
        inner = callee_of(field(node, "function"))
        if inner.name in _UNWRAPPED or "_cast" in inner.name:
            guard = made.guard or self._guard(arguments_of(node))
            for argument in arguments_of(node)[:1]:
                yield from self._callable(argument, made.name, made.scope, guard, call, unit)
            return
        if inner.name in self._index.classes:
            yield from self._functor(inner.name, made)
        for function in self._index.functions.get(inner.name, ()):
            lambdas = [n for n in descend(function.body) if n.type == "lambda_expression"]
            given = dict(zip((name for name, _ in function.parameters), arguments_of(node), strict=False))
            bound = {name: target for name, value in given.items() if (target := self._target(value)) is not None}
            for returned in lambdas[:1]:
                yield made.export(
                    next((text_of(v).strip("&") for v in given.values()), inner.name), returned, "", bound
                )

    def _target(self, value: Node) -> Node | None:
        """The function or lambda that an argument names."""
        value = bare(value) or value
        if value.type == "lambda_expression":
            return value
        path = path_of(field(value, "argument") if value.type == "pointer_expression" else value)
        scope = path[-2] if len(path) > 1 and path[-2] in self._index.classes else None
        found = self._index.find(path[-1], scope, None) if path else []
        return found[0].node if found else None

    def _functor(self, name: str, made: Binding) -> Iterator[Export]:
        for function in self._index.find("operator()", name.split("::")[-1], None):
            yield made.export(function.qualified, function.node, function.scope)

    def _kind(self, unit: Unit) -> str:
        if unit.name not in self._kinds:
            text = unit.root.text.decode("utf-8", "replace") if unit.root.text else ""
            self._kinds[unit.name] = "nanobind" if re.search(r"\b(nb::|nanobind)", text) else "pybind11"
        return self._kinds[unit.name]

    def _named(self, path: tuple[str, ...], made: Binding, node: Node) -> Iterator[Export]:
        scope = path[-2] if len(path) > 1 else None
        found = self._index.find(path[-1], scope if scope in self._index.classes else None, None)
        if not found:
            if node.type == "pointer_expression":
                self.unseen.append(made.name)
            return
        wanted = overload_of(node)
        if len(found) > 1 and wanted is not None:
            found = [function for function in found if _same(function.parameters, wanted)] or found
        for function in found:
            yield made.export(function.qualified, function.node, function.scope)

    def _lambda_variable(self, name: Node) -> Node | None:
        around = enclosing(name, ("function_definition",))
        for node in descend(around) if around is not None else ():
            if node.type == "init_declarator" and declared_name(node) == text_of(name):
                value = field(node, "value")
                if value is not None and value.type == "lambda_expression":
                    return value
        return None

    def _constructor(
        self, init: Node, templates: str, scope: str, guard: str, call: Node, unit: Unit
    ) -> Iterator[Export]:
        at = Place(file=unit.name, line=_name_line(call))
        for argument in arguments_of(init):
            yield from self._callable(argument, f"{scope}.__init__", scope, guard, call, unit)
        if arguments_of(init):
            return
        count = 0 if templates in ("<>", "") else len(re.split(r",(?![^<]*>)", templates[1:-1]))
        for function in self._index.find(scope, scope, count):
            yield self._export(
                f"{scope}.__init__",
                f"{scope}::{scope}",
                "pybind11",
                at,
                function.node,
                scope,
                guard,
                function.parameters,
            )

    def _destructor(self, templates: str, call: Node, unit: Unit) -> Iterator[Export]:
        scope = re.split(r"[,<>]", templates[1:])[0].split("::")[-1].strip()
        for function in self._index.functions.get(f"~{scope}", ()):
            at = Place(file=unit.name, line=line_of(call))
            yield self._export(f"{scope}.__del__", f"{scope}::~{scope}", "pybind11", at, function.node, scope, "", ())

    def _of_table(self, entry: Node, unit: Unit) -> Iterator[Export]:
        """`{"name", function, METH_…}` of a PyMethodDef table; `{Py_tp_…, function}`, `.tp_… = function` of a type."""
        values = [child for child in entry.named_children if child.type != "comment"]
        at = Place(file=unit.name, line=line_of(entry))
        if len(values) >= 3 and "string_literal" in values[0].type and "METH_" in text_of(values[2]):
            yield from self._table_function(values[1], text_of(values[0]).strip('"'), at)
        elif len(values) == 2 and _SLOT.match(text_of(values[0])):
            yield from self._table_function(values[1], text_of(values[0]), at)
        designated = {
            text_of(field(v, "designator")): field(v, "value") for v in values if v.type == "initializer_pair"
        }
        method, name = designated.get(".ml_meth"), designated.get(".ml_name")
        if method is not None:
            yield from self._table_function(method, text_of(name).strip('"'), at)
        for key, value in designated.items():
            if value is not None and _SLOT.match(key.lstrip(".")):
                yield from self._table_function(value, key.lstrip("."), at)

    def _table_function(self, value: Node, name: str, at: Place) -> Iterator[Export]:
        inner = bare(value)
        while inner is not None and inner.type in ("cast_expression", "pointer_expression"):
            inner = bare(field(inner, "value") or field(inner, "argument"))
        path = path_of(inner)
        if not path:
            return
        functions: list[Function] = self._index.find(path[-1], None, None)
        for function in functions:
            yield self._export(
                name, function.qualified, "cpython", at, function.node, function.scope, "", function.parameters
            )
        if not functions and text_of(inner) not in ("nullptr", "NULL", "0"):
            self.unseen.append(name)

    def _export(
        self, name: str, function: str, kind: str, at: Place, target: Node, scope: str, guard: str,
        parameters: tuple[tuple[str, str], ...],
    ) -> Export:  # fmt: skip
        return Export(
            name=name,
            function=function,
            kind=kind,
            at=at,
            target=target,
            scope=scope,
            guard=guard,
            parameters=parameters,
        )


def overload_of(node: Node) -> list[str] | None:
    """Parameter types that a cast or `overload_cast` around a function name asks for; None without one."""
    holder = node.parent
    while holder is not None and holder.type in ("argument_list", "parenthesized_expression"):
        holder = holder.parent
    text = text_of(holder).split("&")[0] if holder is not None and holder.type != "argument_list" else ""
    match = re.search(r"overload_cast\s*<(.*)>\s*\(|\(\s*(?:[\w:]*::)?\s*\*\s*\)\s*\((.*?)\)", text)
    if match is None:
        return None
    listed = match[1] if match[1] is not None else match[2] or ""
    return [part.strip() for part in re.split(r",(?![^<]*>)", listed) if part.strip()]


def _same(parameters: tuple[tuple[str, str], ...], wanted: list[str]) -> bool:
    """Whether parameters have these types, `const` and references aside."""

    def plain(kind: str) -> str:
        return re.sub(r"\bconst\b|[&\s]", "", kind)

    return [plain(kind) for _, kind in parameters] == [plain(kind) for kind in wanted]


def _name_line(call: Node) -> int:
    """The line of `.def`'s own name: a chain of calls begins lines above."""
    function = field(call, "function")
    named = field(function, "field") if function is not None else None
    return line_of(named if named is not None else call)
