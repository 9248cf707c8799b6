"""What a single call or expression means: its type, the function behind it, whether it waits, reads or writes.

Covered: locals, parameters, fields, globals, containers and smart pointers of scanned classes.
Not covered: types that only a compiler can tell (results of templates and of unscanned functions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from probes.static.gil_scan import names
from probes.static.gil_scan.index import Function, Index
from probes.static.gil_scan.syntax import (
    LOOPS,
    Callee,
    arguments_of,
    bare,
    callee_of,
    descend,
    enclosing,
    field,
    path_of,
    text_of,
)

SHORT_US = 50
_UNITS_US = {"nanoseconds": 1e-3, "microseconds": 1.0, "milliseconds": 1e3, "seconds": 1e6, "ns": 1e-3, "us": 1.0,
             "ms": 1e3, "s": 1e6}  # fmt: skip


class Effects:
    """Answers from the index; nothing is kept."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def type_of(self, node: Node | None, types: Mapping[str, str], scope: str) -> str:
        """The declared type of an expression as text, "" when unknown."""
        node = bare(node)
        if node is None:
            return ""
        if node.type == "this":
            return scope
        if node.type == "qualified_identifier":
            return self._qualified(path_of(node))
        if node.type == "identifier":
            name = text_of(node)
            return (
                types.get(name)
                or self._index.field_type(self._index.classes.get(scope), name)
                or (self._index.globals.get(name, ""))
            )
        if node.type == "field_expression":
            owner = self._index.class_in(self.type_of(field(node, "argument"), types, scope))
            return self._index.field_type(owner, text_of(field(node, "field")))
        if node.type in ("subscript_expression", "pointer_expression", "unary_expression"):
            return self.type_of(field(node, "argument"), types, scope)
        if node.type == "call_expression":
            return self._result(node, types, scope)
        return ""

    def _qualified(self, path: tuple[str, ...]) -> str:
        """A static member or a variable of a namespace."""
        owner = self._index.classes.get(path[-2]) if len(path) > 1 else None
        return self._index.field_type(owner, path[-1]) or self._index.globals.get(path[-1], "") if path else ""

    def _result(self, call: Node, types: Mapping[str, str], scope: str) -> str:
        callee = callee_of(field(call, "function"))
        if callee.qualified.endswith("async") or callee.name in ("get_future", "submit", "enqueue"):
            return "std::future"
        if callee.name in ("front", "back", "at", "get", "value", "top", "unwrap") and callee.receiver is not None:
            return self.type_of(callee.receiver, types, scope)
        if callee.path[:1] and callee.path[0] in names.NAMESPACES:
            return (
                callee.qualified if callee.name in names.OBJECT_NAMES else "py::object" if callee.name == "cast" else ""
            )
        found = self.resolve(call, callee, types, scope)
        return text_of(field(found[0].node, "type")) if found else ""

    def resolve(self, call: Node, callee: Callee, types: Mapping[str, str], scope: str) -> list[Function]:
        """The scanned functions that a call may reach."""
        if not callee.path or not self._index.functions.get(callee.name):
            return []
        arity = len(arguments_of(call))
        if callee.receiver is not None:
            owner = self._index.class_in(self.type_of(callee.receiver, types, scope))
            if owner is not None:
                return self._index.find(callee.name, owner.name, arity)
            found = self._index.find(callee.name, None, arity)
            # A wrapper that hands the call on to an object of unknown type does not call itself.
            methods = [function for function in found if function.scope and function.scope != scope]
            return methods if len({function.scope for function in methods}) == 1 and not _common(callee.name) else []
        if len(callee.path) > 1:
            if callee.path[0] in ("", "std", "boost", "absl"):
                return []
            if callee.path[-2] in self._index.classes:
                return self._index.find(callee.name, callee.path[-2], arity)
            return [f for f in self._index.find(callee.name, None, arity) if not f.scope or f.scope == callee.path[-2]]
        mine = self._index.find(callee.name, scope, arity) if scope else []
        return mine or [f for f in self._index.find(callee.name, None, arity) if f.scope not in self._index.classes]

    def wait(self, call: Node, callee: Callee, receiver: str, types: Mapping[str, str], scope: str) -> str | None:
        """Why a call of something that is not scanned can block, or None."""
        arguments = arguments_of(call)
        if callee.receiver is None:
            return self._free_wait(call, callee, arguments, types, scope)
        receiver = f"{self._index.resolve_type(receiver)} {text_of(callee.receiver)}"
        if callee.name in names.FUTURE_METHODS:
            return "waits for another thread" if names.FUTURE_TYPES.search(receiver) and not arguments else None
        if callee.name == "join" and not arguments:
            looks = names.THREAD_TYPES.search(receiver) or re.search(r"thread|worker|\bth?\b|_t\b", receiver, re.I)
            return "waits for a thread to end" if looks else None
        if callee.name == "acquire":
            return "waits for another thread" if names.SEMAPHORE_TYPES.search(receiver) else None
        if callee.name in names.STREAM_METHODS:
            return "blocking input or output" if names.STREAM_TYPES.search(receiver) else None
        if callee.name not in names.METHOD_WAITS or _instant(callee.name, arguments):
            return None
        if callee.name == "wait" and arguments and re.search(r"[Ss]tream", receiver):  # orders work, does not wait
            return None
        return names.METHOD_WAITS[callee.name]

    def _free_wait(
        self, call: Node, callee: Callee, arguments: list[Node], types: Mapping[str, str], scope: str
    ) -> str | None:
        name = callee.name
        if name == "getline" and arguments:
            source = f"{text_of(arguments[0])} {self.type_of(arguments[0], types, scope)}"
            return names.WAIT_CALLS[name] if re.search(r"\bcin\b|ifstream|fstream|\*\*|FILE|socket", source) else None
        if name == "synchronize" and len(callee.path) > 1:
            return names.METHOD_WAITS[name]
        reason = names.WAIT_CALLS.get(name)
        if reason is None:
            return None
        outer = callee.path[:-1]
        if (
            name in names.PLAIN_WORDS
            and outer
            and outer not in ((("",)), ("std",), ("std", "this_thread"))
            and (outer[-1] not in ("this_thread", ""))
        ):
            return None
        if _instant(name, arguments) or "MSG_DONTWAIT" in text_of(call) or "SOCK_NONBLOCK" in text_of(call):
            return None
        return reason

    def of_call(self, call: Node, types: Mapping[str, str], scope: str) -> str:
        """What a call does: "reads" shared memory only, "writes" beyond its own locals, or "" for unknown."""
        callee = callee_of(field(call, "function"))
        found = self.resolve(call, callee, types, scope)
        if not found:
            return ""
        texts = [self._writes(function, 0) for function in found]
        if any(texts):
            return "writes"
        reads = any(self._reads(function) for function in found)
        return "reads" if reads else ""

    def _writes(self, function: Function, depth: int) -> bool:
        own = {name for name, kind in function.parameters if "&" not in kind and "*" not in kind}
        for node in descend(function.body):
            if node.type == "init_declarator":
                own.add(text_of(field(node, "declarator")).strip("&* "))
        for node in descend(function.body):
            if node.type in ("assignment_expression", "update_expression"):
                target = text_of(bare(field(node, "left") or field(node, "argument")))
                if target not in own:
                    return True
            if node.type == "call_expression":
                callee = callee_of(field(node, "function"))
                if callee.name in ("store", "exchange", "fetch_add", "fetch_sub", "push_back", "push", "pop", "insert"):
                    return True
                inner = self.resolve(node, callee, dict(function.parameters), function.scope) if depth < 3 else []
                if any(self._writes(f, depth + 1) for f in inner if f is not function):
                    return True
        return False

    def _reads(self, function: Function) -> bool:
        text = text_of(function.body)
        if re.search(r"\.load\(|->load\(|volatile|\*\s*\w|->|\[", text) or names.FOREIGN_READS.search(text):
            return True
        known = self._index.classes.get(function.scope)
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        return bool(words & (set(known.fields) if known else set())) or bool(words & set(self._index.globals))

    @staticmethod
    def open_ended(call: Node) -> bool:
        """Whether the loop around a launch may run often: its limit is not a small number."""
        loop = enclosing(call, (*LOOPS,))
        while loop is not None and text_of(bare(field(loop, "condition"))) in ("0", "false"):
            loop = enclosing(loop, (*LOOPS,))
        condition = field(loop, "condition")
        numbers = re.findall(r"[<>]=?\s*(\d+)\b", text_of(condition)) if condition is not None else []
        return loop is not None and not (numbers and int(numbers[0]) <= 64)


_COMMON = frozenset({
    "get", "size", "data", "wait", "read", "write", "push", "pop", "load", "store", "join", "begin", "end", "empty",
    "clear", "reset", "lock", "close", "run", "start", "stop", "send", "recv", "find", "insert", "append", "count",
    "value", "emplace", "acquire", "release", "item",
})  # fmt: skip


def _common(name: str) -> bool:
    """Method names that many unscanned types have too."""
    return name in _COMMON


def _instant(name: str, arguments: list[Node]) -> bool:
    """A time limit of zero, or a sleep too short to matter."""
    if not arguments:
        return False
    if name in ("sleep_for", "wait_for", "usleep", "nanosleep"):
        at = next(
            (i for i in reversed(range(len(arguments))) if _microseconds(name, text_of(arguments[i])) is not None), -1
        )
        us = _microseconds(name, text_of(arguments[at])) if at >= 0 else None
        return us is not None and us <= SHORT_US
    if name in ("poll", "zmq_poll", "epoll_wait", "epoll_pwait"):
        return text_of(arguments[min(len(arguments) - 1, 3 if "epoll" in name else 2)]) == "0"
    return False


def _microseconds(name: str, text: str) -> float | None:
    if name == "usleep" and text.isdigit():
        return float(text)
    match = re.search(r"(?:chrono::)?(nanoseconds|microseconds|milliseconds|seconds)\s*[({]\s*(\d+)\s*[)}]", text)
    if match:
        return float(match[2]) * _UNITS_US[match[1]]
    match = re.fullmatch(r"(\d+)(ns|us|ms|s)", text)
    return float(match[1]) * _UNITS_US[match[2]] if match else None
