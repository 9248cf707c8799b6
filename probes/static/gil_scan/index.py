"""What a set of files declares: functions by name, classes with their fields, types that hold or release the GIL.

Covered: free functions, methods inside and outside their class, base classes, aliases, globals, lambdas in variables.
Not covered: full overload resolution (names, class and number of arguments decide), templates' specialisations.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as new

from tree_sitter import Node

from probes.static.gil_scan import names
from probes.static.gil_scan.syntax import declared_name, descend, enclosing, field, line_of, name_node, path_of, text_of

CLASS_KINDS = ("class_specifier", "struct_specifier")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Unit:
    """One parsed file; `name` is its path relative to the scanned folder."""

    name: str
    root: Node
    errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function with a body."""

    name: str
    scope: str
    file: str
    node: Node
    body: Node
    parameters: tuple[tuple[str, str], ...]

    @property
    def line(self) -> int:
        """Where it begins."""
        return line_of(self.node)

    @property
    def qualified(self) -> str:
        """`Class::name`, or the name."""
        return f"{self.scope}::{self.name}" if self.scope else self.name


@dataclass(slots=True)
class Class:
    """A class: types of its fields, its bases, and whether an object of it releases or takes the GIL."""

    name: str
    fields: dict[str, str] = new(default_factory=dict)
    bases: tuple[str, ...] = ()
    guard: str = ""


class Index:
    """All declarations of the scanned files."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self.units = tuple(units)
        self.functions: dict[str, list[Function]] = defaultdict(list)
        self.classes: dict[str, Class] = {}
        self.globals: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.by_node: dict[int, Function] = {}
        self._families: dict[str, set[str]] = {}
        for unit in self.units:
            self._read(unit)
        for _ in range(3):  # a guard may hold another guard
            for known in self.classes.values():
                known.guard = known.guard or self._guard_of(known)

    def _read(self, unit: Unit) -> None:
        for node in descend(unit.root):
            if node.type == "function_definition":
                self._add_function(node, unit.name)
            elif node.type == "field_declaration" and field(node, "default_value") is not None:
                self._add_function(node, unit.name)  # `void f() {}`: an empty body looks like an initialiser
            elif node.type in CLASS_KINDS and field(node, "body") is not None:
                self._add_class(node)
            elif node.type == "alias_declaration":
                self.aliases[text_of(field(node, "name"))] = text_of(field(node, "type"))
            elif node.type == "type_definition":
                self.aliases[declared_name(field(node, "declarator"))] = text_of(field(node, "type"))
            elif node.type == "using_declaration":
                parts = text_of(node).removeprefix("using").strip(" ;").split("::")
                self.aliases.setdefault(parts[-1], "::".join(parts))
            elif node.type == "declaration" and enclosing(node, ("compound_statement",)) is None:
                for name, kind in declared(node):
                    self.globals.setdefault(name, kind)

    def _add_function(self, node: Node, file: str) -> None:
        body, named = field(node, "body"), name_node(field(node, "declarator"))
        if named is None or parameters_node(node) is None:
            return
        if body is None:
            body = field(node, "default_value") or next(
                (child for child in node.named_children if child.type == "try_statement"), None
            )
        if body is None or re.match(
            r".{0,300}?\b__(global|device)__\b(?!.*__host__)", text_of(node)[:400].split("{")[0]
        ):
            return
        path = path_of(named)
        around = enclosing(node, CLASS_KINDS)
        scope = text_of(field(around, "name")) if around is not None else (path[-2] if len(path) > 1 else "")
        function = Function(
            name=path[-1] if path else text_of(named), scope=re.sub(r"<.*", "", scope), file=file, node=node, body=body,
            parameters=parameters_of(node),
        )  # fmt: skip
        self.functions[function.name].append(function)
        self.by_node[node.id] = function

    def _add_class(self, node: Node) -> None:
        name = re.sub(r"<.*", "", text_of(field(node, "name"))).split("::")[-1]
        if not name:
            return
        known = self.classes.setdefault(name, Class(name))
        bases = next((child for child in node.named_children if child.type == "base_class_clause"), None)
        if bases is not None:
            known.bases = tuple(path_of(c)[-1] for c in bases.named_children if path_of(c))
        body = field(node, "body")
        for child in body.named_children if body is not None else ():
            if child.type == "field_declaration":
                known.fields |= dict(declared(child))

    def _guard_of(self, known: Class) -> str:
        for kind in known.fields.values():
            if not names.HOLDERS.search(kind) and (found := self.guard(kind)):
                return found
        for base in known.bases:
            if found := self.guard(base):
                return found
        constructor = next((f for f in self.functions.get(known.name, ()) if f.scope == known.name), None)
        if constructor is not None and constructor.node.text is not None:
            text = text_of(constructor.node)
            if any(f"{call}(" in text for call in names.SAVE_CALLS):
                return "release"
            if "PyGILState_Ensure(" in text:
                return "acquire"
            held = " ".join(known.fields.values())
            if names.HOLDERS.search(held) and "gil_scoped_release" in text:
                return "release"
        return ""

    def guard(self, kind: str, depth: int = 0) -> str:
        """What objects of a type do: "release", "acquire" or ""; aliases and wrapping classes are followed."""
        if names.RELEASE.search(kind):
            return "release"
        if names.ACQUIRE.search(kind):
            return "acquire"
        if depth > 4:
            return ""
        bare = re.sub(r"<.*", "", kind).replace("const", "").strip(" &*").split("::")[-1]
        if bare in self.aliases and self.aliases[bare] != kind:
            return self.guard(self.aliases[bare], depth + 1)
        known = self.classes.get(bare)
        return known.guard if known is not None else ""

    def resolve_type(self, kind: str) -> str:
        """The type with its alias, if it is one, written out."""
        bare = kind.replace("const", "").strip(" &*").split("::")[-1]
        return f"{kind} {self.aliases[bare]}" if bare in self.aliases else kind

    def class_in(self, kind: str) -> Class | None:
        """The scanned class that a type names, smart pointers and containers looked through."""
        found = [self.classes[word] for word in _WORD.findall(self.resolve_type(kind)) if word in self.classes]
        return found[-1] if found else None

    def field_type(self, known: Class | None, name: str, depth: int = 0) -> str:
        """Type of a field, bases included; "" when unknown."""
        if known is None or depth > 5:
            return ""
        if name in known.fields:
            return known.fields[name]
        return next((t for base in known.bases if (t := self.field_type(self.classes.get(base), name, depth + 1))), "")

    def find(self, name: str, scope: str | None, arity: int | None) -> list[Function]:
        """Functions with this name, in the class `scope` or its relatives if given, that can take so many arguments."""
        found = self.functions.get(name, [])
        if scope is not None:
            family = self._families.get(scope)
            if family is None:
                family = self._families[scope] = self._family(scope)
            found = [function for function in found if function.scope in family]
        fitting = [function for function in found if arity is None or _takes(function, arity)]
        return fitting or found

    def _family(self, scope: str) -> set[str]:
        """The class, its bases, and what derives from it: a virtual method may be any of theirs."""
        family, more = {scope}, True
        while more:
            more = False
            for known in self.classes.values():
                if known.name not in family and family & set(known.bases):
                    family.add(known.name)
                    more = True
        queue = [scope]
        while queue:
            known_base = self.classes.get(queue.pop())
            for base in known_base.bases if known_base else ():
                if base not in family:
                    family.add(base)
                    queue.append(base)
        return family


def _takes(function: Function, arity: int) -> bool:
    variadic = any("..." in kind for _, kind in function.parameters)
    declarator = field(function.node, "declarator")
    optional = sum(n.type == "optional_parameter_declaration" for n in descend(declarator)) if declarator else 0
    return variadic or len(function.parameters) - optional <= arity <= len(function.parameters)


def parameters_node(node: Node) -> Node | None:
    """The parameter list of a function or a lambda."""
    declarator = field(node, "declarator")
    while declarator is not None and field(declarator, "parameters") is None:
        declarator = field(declarator, "declarator") or next(
            (c for c in declarator.named_children if c.type.endswith("declarator")), None
        )
    return field(declarator, "parameters")


def parameters_of(node: Node) -> tuple[tuple[str, str], ...]:
    """(name, type) of the parameters of a function or a lambda; the type keeps `&` and `*`."""
    listed = parameters_node(node)
    found = []
    for child in listed.named_children if listed is not None else ():
        if child.type in ("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration"):
            named = field(child, "declarator")
            marks = "".join(c for c in text_of(named) if c in "&*") + ("..." if "variadic" in child.type else "")
            found.append((declared_name(named), text_of(field(child, "type")) + marks))
    if len(found) == 1 and found[0] == ("", "void"):
        return ()
    return tuple(found)


def declared(node: Node, *, inside: bool = False) -> list[tuple[str, str]]:
    """(name, type) of each thing that a declaration declares; `volatile` and storage words stay in the type.

    `inside`: of a function, where `T x(y)` is a variable although it parses as a function.
    """
    kind = text_of(field(node, "type"))
    words = " ".join(text_of(c) for c in node.named_children if c.type in ("type_qualifier", "storage_class_specifier"))
    found = []
    for index, child in enumerate(node.children):
        listed = field(child, "parameters")
        if node.field_name_for_child(index) == "declarator" and (listed is None or (inside and listed.named_children)):
            marks = "".join(c for c in text_of(child).split("=")[0].split("{")[0] if c in "&*")
            found.append((declared_name(child), f"{words} {kind}{marks}".strip()))
    return found
