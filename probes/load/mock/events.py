"""The bytes of the mock server's answers: server-sent events, whole documents, usage.

Covered: chat and text completions; reasoning, tool and content deltas; CRLF, several data lines per event, comments.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from probes.load.mock.script import Script

WORDS = ("río ", "naïve ", "tree ", "日本 ", "stone ", "ünder ", "glass ", "moon ")
COMMON: dict[str, Any] = {"id": "cmpl-mock", "created": 1}
DONE = b"data: [DONE]\n\n"


def words(seed: int, count: int) -> list[str]:
    """Text of each chunk, from a number that stands for the prompt."""
    return [WORDS[(seed >> (shift % 29)) % len(WORDS)] for shift in range(count)]


def usage(prompt_tokens: int, tokens: int, cached: int | None) -> dict[str, Any]:
    """The usage object."""
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    total = prompt_tokens + tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": total, **details}


@lru_cache(maxsize=4096)
def delta_event(model: str, chat: bool, key: str, text: str, finish: str | None) -> bytes:
    """One event of a stream, as JSON without its closing brace so that usage can follow."""
    if not chat:
        choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": finish}
    else:
        choice = {"index": 0, "delta": _delta(key, text), "finish_reason": finish}
    kind = "chat.completion.chunk" if chat else "text_completion"
    document = {**COMMON, "object": kind, "model": model, "choices": [choice]}
    return b"data: " + json.dumps(document, ensure_ascii=False).encode()[:-1]


def closed(event: bytes, extra: dict[str, Any] | None = None) -> bytes:
    """The event with its end, and further keys before it."""
    if not extra:
        return event + b"}\n\n"
    return event + b", " + json.dumps(extra, ensure_ascii=False).encode()[1:] + b"\n\n"


def usage_event(model: str, chat: bool, counts: dict[str, Any]) -> bytes:
    """The event with usage and no choice."""
    kind = "chat.completion.chunk" if chat else "text_completion"
    document = {**COMMON, "object": kind, "model": model, "choices": [], "usage": counts}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def error_event() -> bytes:
    """An error inside a stream that began well."""
    return b'data: {"error": {"message": "out of blocks", "code": 500}}\n\n'


def whole(script: Script, chat: bool, text: str, counts: dict[str, Any]) -> dict[str, Any]:
    """An answer that is not streamed."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": script.finish_reason}
    choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    kind = "chat.completion" if chat else "text_completion"
    found = {} if script.usage == "never" else {"usage": counts}
    return {**COMMON, "object": kind, "model": script.model, "choices": [choice], **found}


def dress(script: Script, event: bytes, first: bool) -> bytes:
    """The same event as other servers write it."""
    if script.multiline and b", " in event:
        head, rest = event.split(b", ", 1)
        event = head + b",\ndata: " + rest
    if script.comments:
        event = b": still here\n\n" + event
    if script.byte_order_mark and first:
        event = b"\xef\xbb\xbf" + event
    return event.replace(b"\n", b"\r\n") if script.crlf else event


def pieces(script: Script, event: bytes) -> list[bytes]:
    """The event in the pieces in which it is written."""
    if script.trickle:
        return [event[start : start + 3] for start in range(0, len(event), 3)]
    if script.split_utf8:
        cut = next((index for index, byte in enumerate(event) if byte & 0xC0 == 0x80), None)
        if cut is not None:
            return [event[:cut], event[cut:]]
    return [event]


def _delta(key: str, text: str) -> dict[str, Any]:
    if key == "role":
        return {"role": "assistant", "content": ""}
    if key == "tool":
        call = {"index": 0, "id": "call-1", "type": "function", "function": {"name": "look", "arguments": text}}
        return {"tool_calls": [call]}
    return {key: text} if text or key != "content" else {}
