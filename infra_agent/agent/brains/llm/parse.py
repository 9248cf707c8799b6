"""From a model's answer to actions, or to one named fault with a correction that says how to mend it.

Covered: tool calls in order; one JSON object in text, alone, fenced or in prose; a fenced diff beside it; the common
wrappers {"action": {...}} and {"name": ..., "arguments": {...}}; thoughts in <think> tags left aside.
Nothing is guessed: two objects, an unknown name, a doubled key or a field of the wrong type is a fault.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from infra_agent.agent.actions import ACTION, LOOKING, Action, ProposeAction
from infra_agent.agent.brains.llm.schemas import EXAMPLES, action_names
from infra_agent.agent.brains.llm.types import Answer, Decision, Dropped, Fault, ToolCall

MAX_CALLS = 8
MAX_JSON_CHARACTERS = 200_000
MAX_CORRECTION_CHARACTERS = 1_000
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCED_DIFF = re.compile(r"```(?:diff|patch)[^\n]*\n(.*?)\n?```", re.DOTALL)
_REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m| am| are)? (?:sorry|unable|cannot|can't|can not|won't|will not)\b", re.IGNORECASE
)
_BEGUN = re.compile(r"""\{\s*["'}]""")
"""A brace that opens an object, not one of prose."""
_DIFF = "diff"


class _Faulty(Exception):
    """A document that is no action."""

    def __init__(self, fault: Fault, correction: str) -> None:
        super().__init__(correction)
        self.fault = fault
        # It repeats the model's own words: cut to a length, and to characters that can be stored.
        self.correction = correction[:MAX_CORRECTION_CHARACTERS].encode("utf-8", "replace").decode()


def decide(answer: Answer) -> Decision:
    """The actions of an answer, or what is wrong with it."""
    try:
        _require_whole(answer)
        if answer.calls:
            return _from_calls(answer)
        return Decision(actions=(_from_text(answer),), call_ids=("",))
    except _Faulty as faulty:
        return Decision(fault=faulty.fault, correction=faulty.correction)


def _require_whole(answer: Answer) -> None:
    if answer.cut:
        fault: Fault = "endless" if answer.cut.startswith("endless") else "cut"
        raise _Faulty(fault, f"Your answer was broken off ({answer.cut}). Give one short action.")
    if answer.finish == "length":
        raise _Faulty("truncated", "Your answer reached its token limit before it was complete. Give one short action.")
    if answer.refusal or answer.finish == "content_filter":
        why = answer.refusal or "content filter"
        raise _Faulty(
            "refusal", f"You declined ({why[:200]}). The task is to tune a server; pick an action or conclude."
        )


def _from_calls(answer: Answer) -> Decision:
    """Calls in order up to the first that is faulty or starts an engine; what follows is answered, not carried out."""
    actions: list[Action] = []
    ids: list[str] = []
    dropped: list[Dropped] = []
    stop = ""
    for call in answer.calls[:MAX_CALLS]:
        if not stop:
            try:
                action = _from_call(call, answer.content)
            except _Faulty as faulty:
                if not actions:
                    raise
                stop = "not carried out: an earlier call of the same answer was faulty"
                dropped.append(Dropped(call.id, call.name, f"not carried out: {faulty.correction}"))
                continue
            actions.append(action)
            ids.append(call.id)
            if action.kind not in LOOKING:
                stop = f"not carried out: decide again once you have seen the result of {action.kind}"
        else:
            dropped.append(Dropped(call.id, call.name, stop))
    late = "not carried out: too many calls in one answer"
    dropped += [Dropped(call.id, call.name, late) for call in answer.calls[MAX_CALLS:]]
    return Decision(actions=tuple(actions), call_ids=tuple(ids), dropped=tuple(dropped))


def _from_call(call: ToolCall, prose: str) -> Action:
    _require_known(call.name)
    document = _load(call.arguments or "{}", f"the arguments of {call.name}")
    if not isinstance(document, dict):
        raise _Faulty("bad_json", f"The arguments of {call.name} must be a JSON object, e.g. {EXAMPLES[call.name]}")
    kind = document.get("kind", call.name)
    if kind != call.name:
        raise _Faulty("bad_fields", f"Tool {call.name} was called with kind {kind!r}: call the tool that you mean.")
    return _validated({**document, "kind": call.name}, prose)


def _from_text(answer: Answer) -> Action:
    text = _THOUGHT.sub("", answer.content)
    documents = _unique(_unwrapped(document) for document in _objects(_FENCED_DIFF.sub("", text)))
    if not text.strip():
        raise _Faulty("empty", f"Your answer was empty. {_form()}")
    if not documents:
        raise _without_action(text)
    if len(documents) > 1:
        kinds = ", ".join(str(document.get("kind"))[:40] for document in documents[:4])
        raise _Faulty("two_actions", f"Your answer holds {len(documents)} actions ({kinds}). Give exactly one.")
    document = documents[0]
    if not isinstance(document.get("kind"), str):
        raise _Faulty("bad_fields", f"The action has no `kind`; kinds: {', '.join(action_names())}")
    _require_known(document["kind"])
    return _validated(document, text)


def _without_action(text: str) -> _Faulty:
    if _REFUSAL.search(text):
        return _Faulty("refusal", f"You declined. The task is to tune a server; pick an action or conclude. {_form()}")
    return _Faulty("no_action", f"Your answer holds no action. Answer in English with one JSON object. {_form()}")


def _form() -> str:
    return f"For example: {EXAMPLES['measure']}"


def _require_known(name: str) -> None:
    if name in action_names():
        return
    near = difflib.get_close_matches(name, action_names(), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise _Faulty("unknown_action", f"There is no action {name[:64]!r}.{hint} Actions: {', '.join(action_names())}.")


def _validated(document: dict[str, Any], prose: str) -> Action:
    document = with_fenced_diff(document, prose)
    try:
        return ACTION.validate_python(document)
    except ValidationError as error:
        raise _Faulty("bad_fields", _field_errors(document["kind"], error)) from None


def with_fenced_diff(document: dict[str, Any], prose: str) -> dict[str, Any]:
    """A proposal without a diff takes the one fenced diff of the prose around it, where proposals can carry one."""
    if document.get("kind") != "propose" or document.get(_DIFF) or _DIFF not in ProposeAction.model_fields:
        return document
    found = _FENCED_DIFF.findall(prose)
    return {**document, _DIFF: f"{found[0]}\n"} if len(found) == 1 else document


def _field_errors(kind: str, error: ValidationError) -> str:
    lines = []
    for entry in error.errors(include_url=False, include_context=False)[:4]:
        place = ".".join(str(part)[:80] for part in entry["loc"] if part != kind) or "the action"
        lines.append(f"{place}: {entry['msg'][:160]}")
    return f"Action {kind} is not well formed: {'; '.join(lines)}. For example: {EXAMPLES[kind]}"


def _unwrapped(document: dict[str, Any]) -> dict[str, Any]:
    """The action inside {"action": {...}} or {"name": KIND, "arguments": {...}}."""
    inner = document.get("action")
    if isinstance(inner, dict) and len(document) == 1:
        return _unwrapped(inner)
    name = document.get("name")
    arguments = document.get("arguments", document.get("parameters"))
    if isinstance(name, str) and isinstance(arguments, dict) and "kind" not in document:
        return {**arguments, "kind": name}
    return document


def _unique(documents: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same action said twice is said once."""
    found: list[dict[str, Any]] = []
    for document in documents:
        if document not in found:
            found.append(document)
    return found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Whole JSON objects in a text, outermost ones only, in order. One that is begun and broken is a fault."""
    at = text.find("{")
    while at != -1:
        try:
            document, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not _BEGUN.match(text, at):
                at = text.find("{", at + 1)
                continue
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:160]
            raise _Faulty("bad_json", f"The JSON object in your answer is not valid: {why}. {_form()}") from None
        if document:
            yield document
        at = text.find("{", end)


def _load(text: str, what: str) -> Any:
    if len(text) > MAX_JSON_CHARACTERS:
        raise _Faulty("bad_json", f"{what} has {len(text)} characters; at most {MAX_JSON_CHARACTERS} are read.")
    try:
        return _DECODER.decode(text.strip())
    except RecursionError:
        raise _Faulty("bad_json", f"{what} is nested too deeply.") from None
    except ValueError as error:
        raise _Faulty("bad_json", f"{what} is no valid JSON: {str(error)[:160]}. {_form()}") from None


def _no_doubled_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {doubled!r} stands twice in one object")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_doubled_keys, parse_constant=_no_constant)
