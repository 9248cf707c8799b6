"""Builds one request's record from the pieces of its answer, streamed or whole.

Covered: chat and text completions; role chunks, content, reasoning, tool and refusal deltas, usage in its own chunk,
in the last chunk or in every chunk (cumulative: the last one counts, none is added up), a second [DONE], error
documents inside a 200 stream, streams that end early.
Not covered: more than one choice per request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from probes.load.sse import Event
from probes.load.types import RequestRecord

ERROR_CHARS = 240
_decode = json.JSONDecoder().raw_decode
"""Half the time of `json.loads`, which is called for every token."""


class AnswerBuilder:
    """Collects the answer to one request; times are seconds in the window."""

    def __init__(self, number: int, scheduled_s: float, sent_s: float, connect_s: float = 0.0) -> None:
        self._number = number
        self._scheduled_s = scheduled_s
        self._sent_s = sent_s
        self._connect_s = connect_s
        self._times: list[float] = []
        self._totals: list[int] = []
        self._first_answer_s: float | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._usage: Mapping[str, Any] = {}
        self._model: str | None = None
        self._finish_reason: str | None = None
        self._done = False
        self._error: str | None = None

    @property
    def error(self) -> str | None:
        """The first thing that went wrong."""
        return self._error

    @property
    def chunks(self) -> int:
        """Content chunks received so far."""
        return len(self._times)

    @property
    def done(self) -> bool:
        """The server said that the answer is complete."""
        return self._done

    def fail(self, error: str) -> None:
        """Keep the first error; what follows from it is not news."""
        self._error = self._error or error

    def event(self, event: Event, now_s: float) -> None:
        """Take one streamed event that arrived at `now_s`."""
        if event.data.strip() == "[DONE]":
            self._done = True
            return
        document = self._parse(event.data)
        if document is None:
            return
        if event.name == "error" or _error_of(document):
            self.fail(f"error in the stream after {self.chunks} chunks: {_error_of(document) or _short(event.data)}")
            return
        self._common(document)
        choice = _first_choice(document)
        reasoning, answer = _delta(choice)
        if reasoning or answer:
            self._chunk(document, reasoning, answer, now_s)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason

    def whole(self, body: str) -> None:
        """Take an answer that was not streamed."""
        document = self._parse(body)
        if document is None:
            return
        if problem := _error_of(document):
            self.fail(f"error in the answer: {problem}")
            return
        self._common(document)
        choice = _first_choice(document)
        message = choice.get("message")
        reasoning, answer = _delta({"delta": message} if isinstance(message, dict) else choice)
        self._reasoning.append(reasoning)
        self._text.append(answer)
        self._finish_reason = choice.get("finish_reason")
        self._done = True

    def record(self, end_s: float, *, streamed: bool) -> RequestRecord:
        """The record, once the response has ended at `end_s`."""
        if not self._done and self._finish_reason is None:
            self.fail(f"the answer ended unfinished after {self.chunks} chunks")
        last_s = self._times[-1] if self._times else None
        tokens = _chunk_tokens(self._totals) if len(self._totals) == len(self._times) else None
        return RequestRecord(
            id=self._number,
            scheduled_s=self._scheduled_s,
            sent_s=self._sent_s,
            end_s=end_s,
            connect_s=self._connect_s,
            first_token_s=self._times[0] if self._times else None,
            first_answer_s=self._first_answer_s,
            last_token_s=last_s if streamed or self._error else end_s,
            chunk_times_s=tuple(self._times),
            chunk_tokens=tokens,
            first_chunk_tokens=tokens[0] if tokens else None,
            output_tokens=_count(self._usage, "completion_tokens"),
            prompt_tokens=_count(self._usage, "prompt_tokens"),
            cached_tokens=_count(_object(self._usage.get("prompt_tokens_details")), "cached_tokens"),
            finish_reason=self._finish_reason,
            model=self._model,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            error=self._error,
        )

    def _parse(self, text: str) -> dict[str, Any] | None:
        try:
            document, end = _decode(text)
            if end != len(text):
                document = json.loads(text)  # white space at the end, or more than one document
        except ValueError:
            document = None
        if not isinstance(document, dict):
            self.fail(f"not a JSON object: {_short(text)}")
            return None
        return document

    def _common(self, document: Mapping[str, Any]) -> None:
        if isinstance(document.get("model"), str):
            self._model = document["model"]
        if isinstance(document.get("usage"), dict):
            self._usage = document["usage"]

    def _chunk(self, document: Mapping[str, Any], reasoning: str, answer: str, now_s: float) -> None:
        self._times.append(now_s)
        if total := _count(_object(document.get("usage")), "completion_tokens"):
            self._totals.append(total)
        self._reasoning.append(reasoning)
        self._text.append(answer)
        if answer and self._first_answer_s is None:
            self._first_answer_s = now_s


def _chunk_tokens(totals: list[int]) -> tuple[int, ...] | None:
    """Tokens of each chunk from running totals; None when the totals do not grow."""
    steps = [later - earlier for earlier, later in zip([0, *totals], totals, strict=False)]
    return tuple(steps) if steps and all(step >= 0 for step in steps) else None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _first_choice(document: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def _delta(choice: Mapping[str, Any]) -> tuple[str, str]:
    """Reasoning and answer text of one choice; a tool call is an answer too."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return "", _text(choice.get("text"))
    reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
    answer = _text(delta.get("content")) + _text(delta.get("refusal"))
    calls = delta.get("tool_calls")
    if isinstance(calls, list) and calls:
        answer += json.dumps(calls, ensure_ascii=False)
    return reasoning, answer


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(usage: Mapping[str, Any], key: str) -> int | None:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _error_of(document: Mapping[str, Any]) -> str:
    """The message of an error document, or an empty string."""
    error = document.get("error")
    if isinstance(error, dict):
        return _short(str(error.get("message") or error))
    if error:
        return _short(str(error))
    return _short(str(document.get("message", document))) if document.get("object") == "error" else ""


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= ERROR_CHARS else flat[: ERROR_CHARS - 1] + "…"
