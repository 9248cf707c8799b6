"""Is a loop a wait? It is when nothing that the loop itself does can end it.

Each way out (condition, `break`, `return`, `throw`) is traced to what it depends on: something that the loop advances
(counter, iterator, list node, consumed input), or memory and calls that only somebody else can change. A limit by the
clock does not make a wait bounded: it is a wait of that length.
Covered: C++ loops with the data flow inside the loop. Not covered: proofs of termination; what cannot be told is no
wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tree_sitter import Node

from probes.static.gil_scan import names
from probes.static.gil_scan.syntax import (
    LOOPS,
    arguments_of,
    bare,
    callee_of,
    declared_name,
    descend,
    enclosing,
    field,
    text_of,
)

HUGE_COUNT = 1_000_000
_TRIES = re.compile(r"^(try_|try[A-Z]|next|poll|peek)")
_NEVER = frozenset({"", "true", "1"})
_VALUES = ("identifier", "field_expression", "this")


class Exit(Enum):
    """What a way out depends on."""

    PROGRESS = 1
    FOREIGN = 2
    CLOCK = 3
    UNKNOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the loop's surroundings know: the type of an expression, and what a called function does.

    `calls`: "reads" if the call only looks at shared memory, "writes" if it may change what the loop waits for,
    "" if nothing is known.
    """

    type_of: Callable[[Node], str]
    calls: Callable[[Node], str]


def wait_reason(loop: Node, known: Known) -> str | None:
    """Why the loop is a wait, or None."""
    if loop.type == "for_range_loop" or text_of(bare(field(loop, "condition"))) in ("0", "false"):
        return None
    ways = _Ways(loop, known)
    exits = ways.exits()
    if exits is None or Exit.PROGRESS in exits:
        return None
    if Exit.FOREIGN in exits:
        return f"loops until another thread, process or device changes {ways.what or 'memory'}"
    if Exit.UNKNOWN in exits:
        return None
    return "busy-waits for a moment in time" if Exit.CLOCK in exits else "loops for ever"


class _Ways:
    """The ways out of one loop."""

    def __init__(self, loop: Node, known: Known) -> None:
        self.loop = loop
        self.known = known
        self.what = ""
        self.body = field(loop, "body")
        self.pauses = names.PAUSES.search(text_of(loop)) is not None
        self.sources: dict[str, list[Node | None]] = {}
        self.local: set[str] = set()
        self.touched: dict[str, list[str]] = {}
        self._collect()

    def exits(self) -> set[Exit] | None:
        """What the ways out depend on; None when the body always leaves in its first turn."""
        if self.body is not None and self._leaves_at_once(self.body):
            return None
        found = set()
        condition = bare(field(self.loop, "condition"))
        if text_of(condition) not in _NEVER:
            assert condition is not None
            found.add(self._judge(condition, ends_when=False))
        for condition in self._inner_conditions():
            found.add(self._judge(condition, ends_when=True))
        if re.search(r"\bE(AGAIN|WOULDBLOCK|INTR)\b", text_of(self.loop)) and "continue" in text_of(self.loop):
            self.what = self.what or "the descriptor's state"
            found = (found - {Exit.PROGRESS}) | {Exit.FOREIGN}
        return found

    def _leaves_at_once(self, body: Node) -> bool:
        statements = body.named_children if body.type == "compound_statement" else [body]
        if any(n.type == "continue_statement" for n in descend(body)):
            return False
        return any(s.type in ("break_statement", "return_statement", "throw_statement") for s in statements)

    def _inner_conditions(self) -> list[Node]:
        found = []
        for node in descend(self.loop, into_functions=False):
            if node.type not in ("break_statement", "return_statement", "throw_statement", "goto_statement"):
                continue
            if node.type == "break_statement":
                holder = enclosing(node, (*LOOPS, "switch_statement"))
                if holder != self.loop:
                    continue
            branch = enclosing(node, ("if_statement", "switch_statement", *LOOPS))
            while branch is not None and branch != self.loop:
                condition = bare(field(branch, "condition"))
                if condition is not None and branch.type in ("if_statement", "switch_statement"):
                    found.append(condition)
                branch = enclosing(branch, ("if_statement", "switch_statement", *LOOPS))
        return found

    def _collect(self) -> None:
        for node in descend(self.loop, into_functions=False):
            if node.type == "assignment_expression":
                self._changed(field(node, "left"), field(node, "right"), text_of(field(node, "operator")) != "=")
            elif node.type == "update_expression":
                self._changed(field(node, "argument"), None, True)
            elif node.type == "init_declarator":
                name = declared_name(node)
                self.sources.setdefault(name, []).append(field(node, "value"))
                if self.body is not None and self.body.start_byte <= node.start_byte < self.body.end_byte:
                    self.local.add(name)
            elif node.type == "call_expression":
                self._called(node)
            elif node.type in LOOPS and node != self.loop:
                self.local |= {declared_name(n) for n in descend(node) if n.type == "init_declarator"}

    def _changed(self, left: Node | None, right: Node | None, advances: bool) -> None:
        target = bare(left)
        name = _key(target)
        if not name:
            return
        self.sources.setdefault(name, []).append(right)
        if advances and right is not None and target is not None:
            self.sources[name].append(target)

    def _called(self, call: Node) -> None:
        callee = callee_of(field(call, "function"))
        if callee.receiver is not None:
            self.touched.setdefault(_key(bare(callee.receiver)), []).append(callee.name)
        if names.PAUSES.search(text_of(call)) or names.FOREIGN_READS.search(callee.name):
            return
        for argument in arguments_of(call):
            inner = bare(argument)
            if inner is not None and inner.type == "pointer_expression" and text_of(inner).startswith("&"):
                self.sources.setdefault(_key(bare(field(inner, "argument"))), []).append(call)
            elif inner is not None and inner.type in ("identifier", "field_expression"):
                self.touched.setdefault(_key(inner), []).append(callee.name)

    def _judge(self, condition: Node, *, ends_when: bool) -> Exit:
        """`ends_when`: the value of the condition that leaves the loop."""
        node = bare(condition)
        if node is None:
            return Exit.UNKNOWN
        if node.type == "unary_expression" and text_of(node).startswith(("!", "not ")):
            inner = field(node, "argument")
            return self._judge(inner, ends_when=not ends_when) if inner is not None else Exit.UNKNOWN
        if node.type == "binary_expression":
            operator = text_of(field(node, "operator"))
            if operator in ("&&", "and", "||", "or"):
                return self._both(node, operator in ("&&", "and"), ends_when)
        if node.type == "call_expression" and not ends_when and _TRIES.match(callee_of(field(node, "function")).name):
            return Exit.PROGRESS  # goes on as long as there is something to take
        return self._leaf(node)

    def _both(self, node: Node, conjunction: bool, ends_when: bool) -> Exit:
        parts = [self._judge(part, ends_when=ends_when) for side in ("left", "right") if (part := field(node, side))]
        either_ends = conjunction != ends_when
        order = (Exit.PROGRESS, Exit.UNKNOWN, Exit.FOREIGN, Exit.CLOCK)
        if not either_ends:
            order = (Exit.FOREIGN, Exit.UNKNOWN, Exit.CLOCK, Exit.PROGRESS)
        return next(kind for kind in order if kind in parts)

    def _leaf(self, node: Node) -> Exit:
        text = text_of(node)
        if names.SIGNALS.search(text):
            return Exit.CLOCK
        if names.CLOCK.search(text) and not names.FOREIGN_READS.search(text):
            return Exit.CLOCK
        found = self._depends(node, frozenset())
        if found is Exit.FOREIGN and not self.what:
            self.what = f"`{text[:60]}`"
        if found is Exit.PROGRESS and self.pauses is False and _huge(node):
            return Exit.CLOCK
        return found

    def _depends(self, node: Node, seen: frozenset[str]) -> Exit:
        """PROGRESS wins inside one comparison (`i < *limit` ends by i), then FOREIGN, then UNKNOWN."""
        node = bare(node) or node
        if node.type == "call_expression":
            return self._call(node, seen)
        if node.type == "qualified_identifier":
            shared = re.search(r"\batomic|\bvolatile\b", self.known.type_of(node)) is not None
            return Exit.FOREIGN if shared or (self.pauses and not _named_constant(node)) else Exit.UNKNOWN
        if node.type in _VALUES or node.type in ("pointer_expression", "subscript_expression"):
            return self._value(node, seen)
        if node.type == "assignment_expression":
            right = field(node, "right")
            return self._depends(right, seen) if right is not None else Exit.UNKNOWN
        if node.type == "update_expression":
            return Exit.PROGRESS
        if node.type == "conditional_expression" or node.named_child_count:
            kinds = {self._depends(child, seen) for child in node.named_children if not _constant(child)}
            return next(
                (k for k in (Exit.PROGRESS, Exit.FOREIGN, Exit.CLOCK, Exit.UNKNOWN) if k in kinds), Exit.UNKNOWN
            )
        return Exit.UNKNOWN

    def _value(self, node: Node, seen: frozenset[str]) -> Exit:
        key = _key(node)
        if key in self.sources:
            return self._advanced(key, seen)
        base = _base(node)
        if base and base != key and base in self.sources and base not in self.local:
            return self._advanced(base, seen)
        index = field(node, "indices") or field(node, "index")
        moved = {n for n in _names_in(index) if n in self.sources and n not in self.local}
        if moved:
            return Exit.PROGRESS
        if names.CLOCK.search(key):
            return Exit.CLOCK
        shared = re.search(r"\batomic|\bvolatile\b", self.known.type_of(node)) is not None
        if shared:
            return Exit.FOREIGN
        return Exit.UNKNOWN if not self.pauses and self._may_change(key, base) else self._unchanged(node)

    def _unchanged(self, node: Node) -> Exit:
        """Nothing here changes it: somebody else must, unless it is a constant."""
        constant = _named_constant(node) or re.search(r"\bconst\b|constexpr", self.known.type_of(node))
        return Exit.UNKNOWN if constant else Exit.FOREIGN

    def _may_change(self, key: str, base: str) -> bool:
        """A call that could write the value: one that gets it, or any method of this object's own class."""
        touched = [n for name in (key, base) for n in self.touched.get(name, ()) if not names.POLL.search(n)]
        if touched:
            return True
        for node in descend(self.loop, into_functions=False):
            if node.type == "call_expression" and not names.PAUSES.search(text_of(node)):
                does = self.known.calls(node)
                callee = callee_of(field(node, "function"))
                if does == "writes" or (does == "" and callee.receiver is None and not names.POLL.search(callee.name)):
                    return True
        return False

    def _advanced(self, key: str, seen: frozenset[str]) -> Exit:
        if key in seen:
            return Exit.UNKNOWN
        kinds = set()
        for source in self.sources[key]:
            if source is None:
                kinds.add(Exit.PROGRESS)
            elif _key(source) == key or key in _names_in(source):
                rest = [n for n in descend(source) if n.type == "call_expression"]
                kinds.add(Exit.PROGRESS)
                kinds |= {self._call(n, seen | {key}) for n in rest} - {Exit.UNKNOWN, Exit.PROGRESS}
                kinds |= {Exit.FOREIGN for n in descend(source) if n.type in _VALUES and self._shared(n)}
                kinds |= {Exit.FOREIGN for n in descend(source) if self._plain_read(n, key)}
            elif not _constant(source):
                kinds.add(self._depends(source, seen | {key}))
        if kinds == {Exit.PROGRESS, Exit.FOREIGN} and key in self.local:
            return Exit.FOREIGN
        return next((k for k in (Exit.FOREIGN, Exit.PROGRESS, Exit.CLOCK, Exit.UNKNOWN) if k in kinds), Exit.UNKNOWN)

    def _plain_read(self, node: Node, key: str) -> bool:
        """A memory read in a flag's own update: `ready = ready && counter[i] >= 0`."""
        if node.type not in ("subscript_expression",) or key not in self.local:
            return False
        return _base(node) not in self.sources and _base(node) != key

    def _shared(self, node: Node) -> bool:
        return (
            _key(node) not in self.sources and re.search(r"\batomic|\bvolatile\b", self.known.type_of(node)) is not None
        )

    def _call(self, node: Node, seen: frozenset[str]) -> Exit:
        callee = callee_of(field(node, "function"))
        text = text_of(node)
        if names.SIGNALS.search(text) or names.CLOCK.search(callee.qualified):
            return Exit.CLOCK
        arguments = arguments_of(node)
        moved = {n for a in arguments for n in _names_in(a) if n in self.sources and n not in self.local}
        if names.FOREIGN_READS.search(callee.name) or callee.name.startswith("compare_exchange"):
            return self._atomic(node, callee.name, moved)
        receiver = bare(callee.receiver)
        key = _key(receiver)
        if callee.name == "load" and receiver is not None:
            base = _base(receiver)
            return Exit.PROGRESS if base in self.sources and base not in self.local else Exit.FOREIGN
        if receiver is not None and _base(receiver) in self.sources and _base(receiver) not in self.local:
            return Exit.PROGRESS
        does = self.known.calls(node)
        if does == "reads":
            return Exit.PROGRESS if moved - {_out(a) for a in arguments} else Exit.FOREIGN
        if names.POLL.search(callee.name):
            handed = {n for n in moved if any(n in _names_in(a) and not _out(a) for a in arguments)}
            return Exit.PROGRESS if handed and not self.pauses else Exit.FOREIGN
        if moved:
            return Exit.PROGRESS
        if receiver is not None:
            others = [n for n in self.touched.get(key, ()) if n != callee.name and not names.POLL.search(n)]
            if others and not names.TAKES.match(callee.name):
                return Exit.PROGRESS
            if names.TAKES.match(callee.name):
                return Exit.PROGRESS
            quiet = re.match(r"^(is_?|has_?|size$|empty$|count|num_?|get_?)", callee.name) is not None
            return (
                Exit.FOREIGN
                if (quiet and not others and not self._may_change(key, key)) or self.pauses
                else Exit.UNKNOWN
            )
        if names.TAKES.match(callee.name):
            return Exit.PROGRESS
        return Exit.FOREIGN if self.pauses else Exit.UNKNOWN

    def _atomic(self, node: Node, name: str, moved: set[str]) -> Exit:
        """A compare-exchange that recomputes what it wants is a lock-free update; one that waits is a lock."""
        if not name.startswith("compare_exchange"):
            return Exit.PROGRESS if moved else Exit.FOREIGN
        expected = _key(bare(next(iter(arguments_of(node)), None)))
        constants = [s for s in self.sources.get(expected, ()) if s is not None and s.type != "call_expression"]
        reset = any(_constant(source) for source in constants) and expected in self.sources
        return Exit.FOREIGN if reset else Exit.PROGRESS


def _key(node: Node | None) -> str:
    """A comparable name for something that can be assigned."""
    return re.sub(r"\bthis\s*->\s*|\s+", "", text_of(node)) if node is not None else ""


def _base(node: Node | None) -> str:
    """The variable at the root of `*p`, `p->f`, `p[i]`, `p.load()`."""
    while node is not None and node.type != "identifier":
        inner = bare(field(node, "argument") or field(node, "function"))
        if node.type == "field_expression" and inner is not None and inner.type == "this":
            return _key(node)
        node = inner
    return text_of(node) if node is not None else ""


def _out(argument: Node) -> str:
    """The variable that an argument lets the callee write: `&x`."""
    inner = bare(argument)
    return _key(bare(field(inner, "argument"))) if inner is not None and inner.type == "pointer_expression" else ""


def _names_in(node: Node | None) -> set[str]:
    if node is None:
        return set()
    return {_key(n) for n in descend(node) if n.type in ("identifier", "field_expression")}


def _constant(node: Node) -> bool:
    return node.type in ("number_literal", "true", "false", "null", "nullptr", "string_literal", "char_literal",
                         "type_descriptor", "primitive_type", "comment", "sizeof_expression")  # fmt: skip


def _named_constant(node: Node) -> bool:
    """Names that are written like constants: kLimit, MAX_RANKS, npos."""
    return re.fullmatch(r"k[A-Z]\w*|[A-Z][A-Z0-9_]*|npos|end", text_of(node).split("::")[-1]) is not None


def _huge(node: Node) -> bool:
    """A count so high that counting to it is a wait by itself."""
    numbers = [text_of(n).replace("'", "") for n in descend(node) if n.type == "number_literal"]
    return any(n.rstrip("uUlL").isdigit() and int(n.rstrip("uUlL")) >= HUGE_COUNT for n in numbers)
