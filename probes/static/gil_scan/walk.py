"""Follows the GIL through a function, path by path and into the functions it calls.

At each point the possible states are HELD, RELEASED or both (a release on one path only). Guards are scopes; a call is
followed into its body in the state of the call site, so a release in the caller counts and a wait two levels down is
seen. Covered: RAII guards and classes that wrap them, optional and smart-pointer guards, SaveThread/RestoreThread,
GILState, lambdas called directly or handed to a function that calls them, threads started (their bodies run without the
GIL). Not covered: exceptions between two states, recursion (one turn is followed), calls through function pointers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from probes.static.gil_scan import names, python_use
from probes.static.gil_scan.effects import Effects
from probes.static.gil_scan.expressions import Expressions
from probes.static.gil_scan.frame import NOWHERE, Frame, Summary
from probes.static.gil_scan.index import Index, declared, parameters_of
from probes.static.gil_scan.loops import Known, wait_reason
from probes.static.gil_scan.model import ONLY_HELD, ONLY_RELEASED, Fault, State
from probes.static.gil_scan.syntax import (
    LOOPS,
    bare,
    callee_of,
    declared_name,
    descend,
    field,
    line_of,
    text_of,
)

DEEPEST = 12


class Walker(Expressions):
    """Summaries of functions, remembered per function and entry state."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.effects = Effects(index)
        self.called = frozenset(
            callee_of(field(node, "function")).name
            for unit in index.units
            for node in descend(unit.root)
            if node.type == "call_expression"
        )
        self._done: dict[tuple[int, State], Summary] = {}
        self._under_way: set[tuple[int, State]] = set()

    def enter(
        self, node: Node, state: State, *, name: str, file: str, scope: str, outer: Frame | None = None,
        bound: dict[str, Node] | None = None, depth: int = 0,
    ) -> Summary:  # fmt: skip
        """Walk a function or lambda. `bound`: lambdas for its parameters; `outer`: the frame that a lambda sees."""
        key = (node.id, state)
        plain = outer is None and not bound
        if plain and key in self._done:
            return self._done[key]
        if key in self._under_way or depth > DEEPEST:
            return Summary(out=state)
        self._under_way.add(key)
        frame = Frame(function=name, file=file, scope=scope, depth=depth)
        if outer is not None:
            frame.types |= outer.types
            frame.lambdas |= outer.lambdas
        frame.types |= dict(parameters_of(node))
        frame.lambdas |= bound or {}
        body = field(node, "body") or next((c for c in node.named_children if c.type == "try_statement"), None)
        out = state
        for part in node.named_children:
            if part.type == "field_initializer_list":
                out = self._expression(part, out, frame)
        out = self._statement(body, out, frame) if body is not None else out
        self._under_way.discard(key)
        summary = Summary(tuple(frame.events), out | frame.returns, frame.heavy, bool(frame.releases))
        if plain:
            self._done[key] = summary
        return summary

    # statements

    def _statements(self, nodes: Iterable[Node], state: State, frame: Frame) -> State:
        for node in nodes:
            if not state:
                break
            state = self._statement(node, state, frame)
        return state

    def _statement(self, node: Node, state: State, frame: Frame) -> State:
        handler = getattr(self, f"_on_{node.type}", None)
        if handler is not None:
            result: State = handler(node, state, frame)
            return result
        if node.type.startswith("preproc_if") or node.type in ("preproc_elif", "preproc_else"):
            return self._conditional_code(node, state, frame)
        if node.type in ("labeled_statement", "attributed_statement", "else_clause", "ERROR", "linkage_specification"):
            return self._statements(node.named_children, state, frame)
        if node.type in LOOPS:
            return self._loop(node, state, frame)
        return self._expression(node, state, frame)

    def _on_compound_statement(self, node: Node, state: State, frame: Frame) -> State:
        before, guards = dict(frame.types), dict(frame.guards)
        heavy, frame.heavy = frame.heavy, False
        out = self._statements(node.named_children, state, frame)
        self._tiny_region(node, frame, guards)
        added = [entry for name, entry in frame.guards.items() if guards.get(name) != entry]
        if added and out:
            out = added[0][1]
        frame.guards, frame.types = guards, before
        frame.heavy = frame.heavy or heavy
        return out

    def _tiny_region(self, node: Node, frame: Frame, guards: dict[str, tuple[str, State]]) -> None:
        for name, (kind, _) in frame.guards.items():
            if name in guards or kind != "release" or frame.heavy:
                continue
            frame.tiny += 1
            if frame.loop or frame.tiny >= 3:
                self._event(
                    frame, Fault.TINY, node, "gives up and takes back the GIL for a few instructions, again and again"
                )

    def _on_declaration(self, node: Node, state: State, frame: Frame) -> State:
        kind = text_of(field(node, "type"))
        for index, child in enumerate(node.children):
            if node.field_name_for_child(index) != "declarator":
                continue
            state = self._declarator(node, child, kind, state, frame)
        return state

    def _declarator(self, node: Node, child: Node, kind: str, state: State, frame: Frame) -> State:
        value = field(child, "value")
        if "auto" in kind and value is not None and (made := _made(text_of(value))):
            kind = made
        guard = self.index.guard(kind)
        prototype = field(child, "parameters") is not None
        if guard and prototype and not field(child, "parameters").named_children:  # type: ignore[union-attr]
            frame.hint = f"line {line_of(node)} declares a function, not a guard: write it without ()"
            return state
        name = declared_name(child)
        if value is not None and value.type == "lambda_expression":
            frame.lambdas[name] = value
            return state
        if not (names.THREAD_TYPES.search(kind) and not guard):
            state = self._expression(value, state, frame) if value is not None else state
        else:
            self._thread(child, frame)
        frame.types |= dict(declared(node, inside=True))
        if kind in ("auto", "const auto") and value is not None:
            frame.types[name] = self.effects.type_of(value, frame.types, frame.scope) or kind
        if guard:
            return self._guard(node, child, name, kind, guard, state, frame)
        if (
            state == ONLY_RELEASED
            and python_use.makes_object(self.index.resolve_type(kind))
            and "&" not in text_of(child).split("=")[0]
        ):
            self._event(frame, Fault.PYTHON, node, f"makes a {kind}")
        return state

    def _guard(self, node: Node, child: Node, name: str, kind: str, guard: str, state: State, frame: Frame) -> State:
        frame.guards[name] = (guard, state)
        if names.HOLDERS.search(kind) or names.HOLDERS.search(self.index.resolve_type(kind)):
            text = text_of(child)
            filled = "=" in text or "(" in text or "{" in text
            if not filled or "nullopt" in text and "?" not in text or "nullptr" in text and "?" not in text:
                return state
            changed = self._change(node, guard, state, frame)
            return changed | state if "?" in text else changed
        return self._change(node, guard, state, frame)

    def _change(self, node: Node, guard: str, state: State, frame: Frame) -> State:
        if guard == "acquire":
            return ONLY_HELD
        if state == ONLY_RELEASED:
            self._event(
                frame, Fault.PYTHON, node, "releases the GIL although it is released already: the process aborts"
            )
        frame.releases.append(frame.branch)
        return ONLY_RELEASED

    def _on_expression_statement(self, node: Node, state: State, frame: Frame) -> State:
        inner = next((c for c in node.named_children), None)
        if inner is not None and inner.type == "call_expression":
            callee = callee_of(field(inner, "function"))
            if callee.receiver is None and callee.name in ("async",) and "launch::async" in text_of(inner):
                self._wait(frame, node, "waits for another thread (the future is dropped at once)", state)
        return self._statements(node.named_children, state, frame)

    def _on_if_statement(self, node: Node, state: State, frame: Frame) -> State:
        guards, types = dict(frame.guards), dict(frame.types)
        condition = field(node, "condition")
        state = self._statements(condition.named_children, state, frame) if condition is not None else state
        text = text_of(bare(condition))
        held, free = self._refine(text, state)
        frame.branch += 1
        taken = self._statement(c, held, frame) if (c := field(node, "consequence")) is not None and held else NOWHERE
        other = field(node, "alternative")
        left = self._statement(other, free, frame) if other is not None and free else free
        frame.branch -= 1
        for name in [n for n in frame.guards if n not in guards]:
            frame.guards.pop(name)
        frame.types = types
        return taken | left

    @staticmethod
    def _refine(text: str, state: State) -> tuple[State, State]:
        """States on the two sides of a condition; `PyGILState_Check()` tells them apart."""
        if text in ("false", "0"):
            return NOWHERE, state
        if text in ("true", "1"):
            return state, NOWHERE
        if re.fullmatch(r"PyGILState_Check\(\)", text):
            return state & ONLY_HELD, state & ONLY_RELEASED
        if re.fullmatch(r"!\s*PyGILState_Check\(\)", text):
            return state & ONLY_RELEASED, state & ONLY_HELD
        return state, state

    def _on_switch_statement(self, node: Node, state: State, frame: Frame) -> State:
        condition, body = field(node, "condition"), field(node, "body")
        state = self._expression(condition, state, frame) if condition is not None else state
        exits, frame.exits = frame.exits, NOWHERE
        frame.branch += 1
        out: State = NOWHERE
        for case in body.named_children if body is not None else ():
            parts = [c for i, c in enumerate(case.children) if c.is_named and case.field_name_for_child(i) != "value"]
            out = self._statements(parts, state | out, frame)
        frame.branch -= 1
        out, frame.exits = out | frame.exits | state, exits
        return out

    def _on_try_statement(self, node: Node, state: State, frame: Frame) -> State:
        out: State = NOWHERE
        for child in node.named_children:
            if child.type == "catch_clause":
                frame.branch += 1
                body = field(child, "body")
                out |= self._statement(body, state, frame) if body is not None else state
                frame.branch -= 1
            elif child.type == "compound_statement":
                out |= self._statement(child, state, frame)
        return out

    def _on_return_statement(self, node: Node, state: State, frame: Frame) -> State:
        frame.returns |= self._statements(node.named_children, state, frame)
        return NOWHERE

    _on_co_return_statement = _on_return_statement

    def _on_throw_statement(self, node: Node, state: State, frame: Frame) -> State:
        self._statements(node.named_children, state, frame)
        if state == ONLY_RELEASED and re.search(r"\b(error_already_set|python_error)\b", text_of(node)):
            self._event(frame, Fault.PYTHON, node, "throws a Python error, which fetches it from the interpreter")
        return NOWHERE

    def _on_break_statement(self, node: Node, state: State, frame: Frame) -> State:
        frame.exits |= state
        return NOWHERE

    _on_continue_statement = _on_break_statement

    def _conditional_code(self, node: Node, state: State, frame: Frame) -> State:
        """`#if`: both sides are possible builds; a guard in one of them lives on in the scope around it."""
        skip = {c.id for name in ("name", "condition", "alternative") if (c := field(node, name)) is not None}
        frame.branch += 1
        taken = self._statements([c for c in node.named_children if c.id not in skip], state, frame)
        other = field(node, "alternative")
        left = self._statement(other, state, frame) if other is not None else state
        frame.branch -= 1
        return taken if node.type == "preproc_else" else taken | left

    def _loop(self, node: Node, state: State, frame: Frame) -> State:
        before = len(frame.events)
        exits, frame.exits = frame.exits, NOWHERE
        depth, releases = frame.branch, len(frame.releases)
        types = dict(frame.types)
        once = text_of(bare(field(node, "condition"))) in ("0", "false")
        if once:
            return self._once(node, state, frame)
        frame.loop += 1
        for name in ("initializer", "condition", "right", "update"):
            part = field(node, name)
            if part is not None:
                state = self._statement(part, state, frame)
        if node.type == "for_range_loop":
            self._range(node, state, frame)
        body = field(node, "body")
        out = self._statement(body, state, frame) if body is not None else state
        frame.loop -= 1
        yields = any(level <= depth for level in frame.releases[releases:])
        reason = wait_reason(node, self._known(frame))
        frame.heavy = True
        if reason is not None and not yields and len(frame.events) == before:
            self._wait(frame, node, reason, state)
        out, frame.exits, frame.types = out | frame.exits | state, exits, types
        return out

    def _once(self, node: Node, state: State, frame: Frame) -> State:
        """`do { … } while (0)`, the shape of macros."""
        body = field(node, "body")
        exits, frame.exits = frame.exits, NOWHERE
        out = self._statement(body, state, frame) if body is not None and node.type == "do_statement" else state
        out, frame.exits = out | frame.exits, exits
        return out

    def _range(self, node: Node, state: State, frame: Frame) -> None:
        """Types and touches of `for (auto& x : xs)`."""
        right = field(node, "right")
        kind = self.effects.type_of(right, frame.types, frame.scope) if right is not None else ""
        name = declared_name(field(node, "declarator"))
        own = text_of(field(node, "type"))
        frame.types[name] = kind if "auto" in own else own
        if state == ONLY_RELEASED and python_use.is_object(kind):
            self._event(frame, Fault.PYTHON, node, "iterates a Python object")

    def _known(self, frame: Frame) -> Known:
        return Known(
            type_of=lambda node: self.effects.type_of(node, frame.types, frame.scope),
            calls=lambda call: self.effects.of_call(call, frame.types, frame.scope),
        )


def _made(value: str) -> str:
    """The type behind `auto x = make_unique<T>()` or `auto x = T{}`; "" for anything else."""
    match = re.match(r"(?:std::)?make_(unique|shared|optional)\s*<(.*)>\s*\(", value)
    if match:
        return f"std::{match[1]}_ptr<{match[2]}>" if match[1] != "optional" else f"std::optional<{match[2]}>"
    match = re.match(r"([\w:]*gil_scoped_\w+)\s*[({]", value)
    return match[1] if match else ""
