"""Finds out, by asking once, how an endpoint wants to be asked: tools, else a JSON schema, else plain text.

A request that the endpoint does not take is repeated without the newest thing in it: usage in the stream, the stream,
the name of the token limit. An answer that does not use the tool, or does not keep to the schema, means the next mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from infra_agent.agent.brains.llm.types import MODES, Answer, LimitField, Message, Mode, ModeName
from infra_agent.errors import EndpointError

READY = "ready"
CHECK_TOKENS = 256
"""Room for a model that thinks before it calls the tool."""
_TASK = "This is a check of the connection. Report that you are ready"
_SCHEMA = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}
_REFUSED_REQUEST = frozenset({400, 404, 405, 415, 422, 500, 501, 503})
"""Statuses that servers give for a field that they do not know."""

Send = Callable[[Mode, dict[str, Any]], Answer]


class Found(NamedTuple):
    """The mode, and why it is this one."""

    mode: Mode
    evidence: str


def find_mode(send: Send, model: str) -> Found:
    """The first mode that works. EndpointError when not even a plain question is answered."""
    reasons: list[str] = []
    base = Mode("tools")
    for name in MODES:
        mode, answer, problem = _ask(send, model, base._replace(name=name))
        if answer is None:
            reasons.append(f"{name}: {problem}")
            continue
        base = mode
        wrong = _wrong(name, answer)
        if not wrong:
            return Found(mode, "; ".join([*reasons, f"{name}: works"]))
        reasons.append(f"{name}: {wrong}")
    raise EndpointError("the endpoint answers no question: " + "; ".join(reasons))


def label(mode: Mode) -> str:
    """A name for one form of asking."""
    parts = ("stream" if mode.stream else "whole", "usage" if mode.stream and mode.stream_usage else "")
    return " ".join(filter(None, (mode.name, *parts, mode.limit_field)))


def question(model: str, mode: Mode) -> dict[str, Any]:
    """The body of the check."""
    body = request_body(model, mode, _messages(mode.name), CHECK_TOKENS)
    if mode.name == "tools":
        tool = {"name": READY, "description": "Report whether you are ready.", "parameters": _SCHEMA}
        body["tools"] = [{"type": "function", "function": tool}]
    elif mode.name == "json_schema":
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": READY, "schema": _SCHEMA}}
    return body


def request_body(model: str, mode: Mode, messages: list[Message], answer_tokens: int) -> dict[str, Any]:
    """What every request carries in this mode."""
    body: dict[str, Any] = {"model": model, "messages": messages, mode.limit_field: answer_tokens}
    if mode.stream and mode.stream_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def _messages(name: ModeName) -> list[Message]:
    how = {"tools": f"by calling the tool {READY} with ready true.", "json_schema": 'as JSON: {"ready": true}.'}
    return [{"role": "user", "content": f"{_TASK} {how.get(name, 'in one word.')}"}]


def _ask(send: Send, model: str, mode: Mode) -> tuple[Mode, Answer | None, str]:
    """The answer in the fullest form of this mode that is taken, or what was said against it."""
    problem = ""
    for variant in _variants(mode):
        try:
            return variant, send(variant, question(model, variant)), ""
        except EndpointError as error:
            if error.status not in _REFUSED_REQUEST or _no_such_model(error):
                raise
            problem = error.message
            other: LimitField = "max_completion_tokens"
            if other in error.message and mode.limit_field != other:
                return _ask(send, model, mode._replace(limit_field=other))
    return mode, None, problem


def _variants(mode: Mode) -> Iterator[Mode]:
    yield mode
    if mode.stream and mode.stream_usage:
        yield mode._replace(stream_usage=False)
    if mode.stream:
        yield mode._replace(stream=False, stream_usage=False)


def _no_such_model(error: EndpointError) -> bool:
    """A wrong model name is the user's to mend, not a missing feature."""
    said = error.message.lower()
    return error.status == 404 and "model" in said and ("exist" in said or "not found" in said)


def _wrong(name: ModeName, answer: Answer) -> str:
    """What speaks against this mode in its answer; nothing when it works."""
    if answer.cut:
        return answer.cut
    if name == "tools":
        return "" if any(call.name == READY for call in answer.calls) else "the tool was not called"
    if name == "json_schema":
        try:
            document = json.loads(answer.content)
        except ValueError:
            return "the answer does not keep to the schema"
        return "" if isinstance(document, dict) and "ready" in document else "the answer does not keep to the schema"
    return ""
