"""What a scripted model says, and how it goes over the wire: whole, in chunks, late, broken, or as an error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PIECE = 24
"""Characters per streamed piece."""


class Call(NamedTuple):
    """A tool call; `arguments` as an object, or as raw text when it shall be wrong."""

    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. With a `status` other than 200 it is an error. `cut_after` pieces the connection is dropped.

    `usage` None: counted from the characters; `report_usage` False: never told.
    `drip_s`: comments are sent for so long before the answer. `repeat`: the content without end.
    """

    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = ""
    status: int = 200
    error: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    usage: tuple[int, int] | None = None
    report_usage: bool = True
    delay_s: float = 0.0
    drip_s: float = 0.0
    cut_after: int | None = None
    repeat: bool = False
    raw: bytes | None = None

    @property
    def finish_reason(self) -> str:
        """As given, else what follows from the answer."""
        return self.finish or ("tool_calls" if self.calls else "stop")


def action(kind: str, **fields: Any) -> Reply:
    """A reply that is one tool call."""
    return Reply(calls=(Call(kind, fields),))


def say(text: str) -> Reply:
    """A reply in words."""
    return Reply(content=text)


def document(reply: Reply, model: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The reply as one completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.refusal:
        message["refusal"] = reply.refusal
    if reply.calls:
        message["tool_calls"] = [_call(index, call) for index, call in enumerate(reply.calls)]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    whole = {**_head(model, "chat.completion"), "choices": [choice]}
    return {**whole, "usage": usage_of(reply, request)} if reply.report_usage else whole


def chunks(reply: Reply, model: str, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The reply as a stream of chunks, usage last when it was asked for."""
    head = _head(model, "chat.completion.chunk")
    yield _delta(head, {"role": "assistant", "content": ""})
    for piece in _pieces(reply.reasoning):
        yield _delta(head, {"reasoning_content": piece})
    for piece in _pieces(reply.content):
        yield _delta(head, {"content": piece})
    while reply.repeat:
        yield _delta(head, {"content": reply.content})
    if reply.refusal:
        yield _delta(head, {"refusal": reply.refusal})
    for index, call in enumerate(reply.calls):
        whole = _call(index, call)
        opened = {**whole, "index": index, "function": {"name": call.name, "arguments": ""}}
        yield _delta(head, {"tool_calls": [opened]})
        for piece in _pieces(whole["function"]["arguments"]):
            yield _delta(head, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]}
    options = request.get("stream_options")
    if reply.report_usage and isinstance(options, Mapping) and options.get("include_usage"):
        yield {**head, "choices": [], "usage": usage_of(reply, request)}


def usage_of(reply: Reply, request: Mapping[str, Any]) -> dict[str, int]:
    """Token counts as an endpoint reports them: four characters to a token."""
    said = reply.content + reply.reasoning + "".join(_text(call.arguments) for call in reply.calls)
    counted = (len(json.dumps(request.get("messages", []))) // 4, len(said) // 4 + 1)
    prompt, completion = reply.usage or counted
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _call(index: int, call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _text(call.arguments)}
    return {"id": f"call_{index}", "type": "function", "function": function}


def _text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def _head(model: str, kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 0, "model": model}


def _delta(head: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
