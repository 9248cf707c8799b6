"""Follows the GIL through expressions: calls into scanned functions, known waits, guards, lambdas, other threads."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tree_sitter import Node

from probes.static.gil_scan import names, python_use
from probes.static.gil_scan.effects import Effects
from probes.static.gil_scan.frame import NOWHERE, Frame, Summary
from probes.static.gil_scan.index import Function, Index
from probes.static.gil_scan.macros import LAUNCH_CALL
from probes.static.gil_scan.model import HELD, ONLY_HELD, ONLY_RELEASED, RELEASED, Event, Fault, Place, State
from probes.static.gil_scan.syntax import Callee, arguments_of, bare, callee_of, descend, field, line_of, text_of


class Expressions(ABC):
    """The part of a walk that deals with expressions; statements are the subclass's."""

    index: Index
    effects: Effects

    @abstractmethod
    def enter(
        self, node: Node, state: State, *, name: str, file: str, scope: str, outer: Frame | None = None,
        bound: dict[str, Node] | None = None, depth: int = 0,
    ) -> Summary:  # fmt: skip
        """Walk a function or lambda."""

    @abstractmethod
    def _statement(self, node: Node, state: State, frame: Frame) -> State: ...

    @abstractmethod
    def _change(self, node: Node, guard: str, state: State, frame: Frame) -> State: ...

    def _expression(self, node: Node, state: State, frame: Frame) -> State:
        if node.type == "call_expression":
            return self._call(node, state, frame)
        if node.type in ("lambda_expression", "decltype", "sizeof_expression", "comment", "type_descriptor"):
            return state
        if node.type in ("declaration", "throw_statement", "compound_statement"):
            return self._statement(node, state, frame)
        if node.type == "subscript_expression" and state == ONLY_RELEASED:
            kind = self.effects.type_of(field(node, "argument"), frame.types, frame.scope)
            if python_use.is_object(kind) and "PyObject" not in kind:
                self._event(frame, Fault.PYTHON, node, "indexes a Python object")
        if node.type == "conditional_expression" or (
            node.type == "binary_expression" and text_of(field(node, "operator")) in ("&&", "||", "and", "or")
        ):
            return self._choice(node, state, frame)
        for child in node.named_children:
            if state:
                state = self._expression(child, state, frame)
        if node.type == "new_expression" and names.THREAD_TYPES.search(text_of(field(node, "type"))):
            self._thread(node, frame)
        return state

    def _choice(self, node: Node, state: State, frame: Frame) -> State:
        first, *rest = node.named_children
        state = self._expression(first, state, frame)
        frame.branch += 1
        outs = [self._expression(part, state, frame) for part in rest]
        frame.branch -= 1
        return state.union(*outs) if node.type == "binary_expression" else NOWHERE.union(*outs)

    def _call(self, call: Node, state: State, frame: Frame) -> State:
        function = field(call, "function")
        callee = callee_of(function)
        if function is not None and function.type == "lambda_expression":
            return self._lambda(function, call, state, frame)
        if callee.receiver is not None:
            state = self._expression(callee.receiver, state, frame)
        starts = callee.name in names.STARTERS
        for argument in arguments_of(call):
            if argument.type != "lambda_expression":
                state = self._expression(argument, state, frame)
            elif starts:
                self._other_thread(argument, frame)
        if callee.name in names.SAVE_CALLS | names.RESTORE_CALLS | {"PyGILState_Ensure", "PyGILState_Release"}:
            return self._thread_state(call, callee.name, state, frame)
        held = self._held_guard(call, callee, state, frame)
        if held is not None:
            return held
        if callee.receiver is None and self.index.guard(callee.qualified):
            frame.hint = f"the guard in line {line_of(call)} has no name: it is gone at the end of its own statement"
            return state
        return self._known_call(call, callee, state, frame)

    def _held_guard(self, call: Node, callee: Callee, state: State, frame: Frame) -> State | None:
        """`guard.emplace()`, `guard.reset()` of a guard in an optional or a smart pointer."""
        name = text_of(bare(callee.receiver))
        if name not in frame.guards:
            return None
        guard, before = frame.guards[name]
        if callee.name == "emplace" or (callee.name == "reset" and arguments_of(call)):
            return self._change(call, guard, state, frame)
        return before if callee.name == "reset" else state

    def _thread_state(self, call: Node, name: str, state: State, frame: Frame) -> State:
        if name in names.SAVE_CALLS:
            return self._change(call, "release", state, frame)
        if name == "PyGILState_Ensure":
            frame.ensured.append(state)
            return ONLY_HELD
        if name == "PyGILState_Release":
            return frame.ensured.pop() if frame.ensured else state
        return ONLY_HELD

    def _known_call(self, call: Node, callee: Callee, state: State, frame: Frame) -> State:
        name = text_of(bare(field(call, "function")))
        if name in frame.lambdas:
            return self._lambda(frame.lambdas[name], call, state, frame)
        receiver = (
            self.effects.type_of(callee.receiver, frame.types, frame.scope) if callee.receiver is not None else ""
        )
        touch = python_use.of_call(callee, self.index.resolve_type(receiver), frame.types.get(callee.name, ""))
        if touch is not None:
            frame.heavy = True
            if state == ONLY_RELEASED:
                self._event(frame, Fault.PYTHON, call, touch)
        found = self.effects.resolve(call, callee, frame.types, frame.scope)
        if found:
            return self._into(found, call, state, frame)
        if callee.name in names.RUN_NOW:
            for argument in arguments_of(call):
                inner = frame.lambdas.get(text_of(argument), argument)
                if inner.type == "lambda_expression":
                    state = self._lambda(inner, call, state, frame)
        reason = self.effects.wait(call, callee, receiver, frame.types, frame.scope)
        if reason is not None:
            self._wait(frame, call, reason, state)
        elif callee.name in names.LAUNCHES or callee.name == LAUNCH_CALL:
            if frame.loop and self.effects.open_ended(call):
                self._wait(frame, call, "launches kernels in a loop: a full launch queue blocks", state)
        elif callee.name not in names.CHEAP and touch is None and callee.path[:1] != ("std",):
            frame.heavy = True
        return state

    def _into(self, found: list[Function], call: Node, state: State, frame: Frame) -> State:
        outs: State = NOWHERE
        for function in found:
            bound = {
                name: lam
                for (name, _), argument in zip(function.parameters, arguments_of(call), strict=False)
                if (lam := frame.lambdas.get(text_of(argument), argument)).type == "lambda_expression"
            }
            summary = self.enter(
                function.node, state, name=function.qualified, file=function.file, scope=function.scope, bound=bound,
                outer=frame if bound else None, depth=frame.depth + 1,
            )  # fmt: skip
            self._adopt(summary, call, frame)
            outs |= summary.out or state
        return outs

    def _lambda(self, node: Node, call: Node, state: State, frame: Frame) -> State:
        summary = self.enter(
            node, state, name=frame.function, file=frame.file, scope=frame.scope, outer=frame, depth=frame.depth + 1
        )
        self._adopt(summary, call, frame)
        return summary.out or state

    def _adopt(self, summary: Summary, call: Node, frame: Frame) -> None:
        site = Place(file=frame.file, line=line_of(call))
        for event in summary.events:
            calls = event.calls if event.function == frame.function else (site, *event.calls)
            frame.events.append(
                Event(fault=event.fault, at=event.at, reason=event.reason, function=event.function, partly=event.partly,
                      calls=calls, hint=event.hint)
            )  # fmt: skip
        frame.heavy = frame.heavy or summary.heavy
        if summary.releases:
            frame.releases.append(frame.branch)

    def _thread(self, node: Node, frame: Frame) -> None:
        for child in descend(node):
            if child.type == "lambda_expression":
                self._other_thread(child, frame)
                return

    def _other_thread(self, node: Node, frame: Frame) -> None:
        """A thread of its own begins without the GIL; what it waits for holds nobody up."""
        summary = self.enter(
            node, ONLY_RELEASED, name=frame.function, file=frame.file, scope=frame.scope, outer=frame,
            depth=frame.depth + 1,
        )  # fmt: skip
        frame.events += [event for event in summary.events if event.fault is Fault.PYTHON]

    def _wait(self, frame: Frame, node: Node, reason: str, state: State) -> None:
        frame.heavy = True
        if HELD in state:
            self._event(frame, Fault.WAIT, node, reason, partly=RELEASED in state)

    def _event(self, frame: Frame, fault: Fault, node: Node, reason: str, *, partly: bool = False) -> None:
        at = Place(file=frame.file, line=line_of(node))
        frame.events.append(
            Event(fault=fault, at=at, reason=reason, function=frame.function, partly=partly, hint=frame.hint)
        )
