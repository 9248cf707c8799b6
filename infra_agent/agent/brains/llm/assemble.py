"""Puts an answer together from what an endpoint sends: a stream of chunks, or one document.

Covered: fields that are missing, null or of another type than promised are left out, never trusted; content given as a
list of parts; reasoning under the names in use. Not covered: what the answer means (`parse`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra_agent.agent.brains.llm.types import Answer, ToolCall, Usage

MAX_ANSWER_CHARACTERS = 400_000
MAX_NAME_CHARACTERS = 200
_REASONING = ("reasoning_content", "reasoning", "thinking")


class Assembly:
    """Grows by chunks; `answer` is what has come so far."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self._finish = ""
        self._usage: Usage | None = None
        self.characters = 0

    def add(self, chunk: object) -> None:
        """One streamed chunk, or one whole document."""
        if not isinstance(chunk, Mapping):
            return
        self._usage = _usage(chunk.get("usage")) or self._usage
        choices = chunk.get("choices")
        if not isinstance(choices, Sequence) or not choices or not isinstance(choices[0], Mapping):
            return
        choice = choices[0]
        self._finish = _name(choice.get("finish_reason")) or self._finish
        for name in ("delta", "message"):
            part = choice.get(name)
            if isinstance(part, Mapping):
                self._part(part)

    def _part(self, part: Mapping[str, Any]) -> None:
        self._grow(self._content, _content(part.get("content")))
        self._grow(self._refusal, _text(part.get("refusal")))
        self._grow(self._reasoning, next((_text(part[n]) for n in _REASONING if _text(part.get(n))), ""))
        calls = part.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, Sequence) else ()):
            if isinstance(call, Mapping):
                self._call(call, position)

    def _call(self, call: Mapping[str, Any], position: int) -> None:
        """Streamed calls come in pieces that share an index; pieces without one are told apart by their id."""
        index = call.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            index = self._index_of(_name(call.get("id")), position)
        entry = self._calls.setdefault(index, ["", "", ""])
        function = call.get("function")
        named = function if isinstance(function, Mapping) else {}
        entry[0] = _name(call.get("id")) or entry[0]
        entry[1] = _name(named.get("name")) or entry[1]
        arguments = named.get("arguments")
        piece = _text(arguments) if isinstance(arguments, str) else _dumped(arguments)
        entry[2] += piece
        self.characters += len(piece)

    def _index_of(self, id_: str, position: int) -> int:
        for index, entry in self._calls.items():
            if id_ and entry[0] == id_:
                return index
        return max(self._calls, default=-1) + 1 if id_ else position

    def _grow(self, parts: list[str], text: str) -> None:
        if text:
            parts.append(text)
            self.characters += len(text)

    def answer(self, cut: str = "") -> Answer:
        """What has come so far. `cut` says why no more will."""
        calls = tuple(
            ToolCall(id_ or f"call_{index}", name, arguments)
            for index, (id_, name, arguments) in sorted(self._calls.items())
        )
        return Answer(
            content="".join(self._content),
            reasoning="".join(self._reasoning),
            refusal="".join(self._refusal),
            calls=calls,
            finish=self._finish,
            usage=self._usage,
            cut=cut,
        )

    @property
    def ended(self) -> bool:
        """Whether the model said that it is done."""
        return bool(self._finish)


def _text(value: object) -> str:
    """Text that can be stored: JSON may hold half a character."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _name(value: object) -> str:
    """An identifier of the endpoint's."""
    return _text(value)[:MAX_NAME_CHARACTERS]


def _content(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, Mapping))
    return ""


def _dumped(value: object) -> str:
    import json

    # Some engines send the arguments as an object instead of as text.
    return json.dumps(value) if isinstance(value, Mapping) else ""


def _usage(value: object) -> Usage | None:
    if not isinstance(value, Mapping):
        return None
    count = {name: _count(value.get(name)) for name in ("prompt_tokens", "completion_tokens")}
    if count["prompt_tokens"] is None or count["completion_tokens"] is None:
        return None
    return Usage(
        input=count["prompt_tokens"],
        output=count["completion_tokens"],
        cached=_detail(value, "prompt_tokens_details", "cached_tokens"),
        reasoning=_detail(value, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    return (_count(details.get(name)) or 0) if isinstance(details, Mapping) else 0


def _count(value: object) -> int | None:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and 0 <= value < 2**53 else None  # type: ignore[operator,return-value]
