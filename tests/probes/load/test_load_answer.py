"""Shapes of streamed documents that servers really send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from probes.load.answer import AnswerBuilder
from probes.load.sse import Event
from probes.load.types import RequestRecord


def streamed(*documents: dict[str, Any] | str) -> RequestRecord:
    answer = AnswerBuilder(0, 0.0, 0.0)
    for moment, document in enumerate(documents, 1):
        answer.event(Event("", document if isinstance(document, str) else json.dumps(document)), float(moment))
    return answer.record(99.0, streamed=True)


def delta(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"delta": fields}]}


STOP = {"model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_a_token_but_not_an_answer(key: str) -> None:
    record = streamed(
        delta(role="assistant", content=""), delta(**{key: "hm"}), delta(content="ye"), delta(content="s"), STOP
    )
    assert (record.first_token_s, record.first_answer_s, record.last_token_s) == (2.0, 3.0, 4.0)
    assert (record.reasoning, record.text) == ("hm", "yes")


def test_a_tool_call_is_an_answer() -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": "{}"}}
    record = streamed(delta(content=None, tool_calls=[call]), STOP)
    assert record.first_answer_s == 1.0
    assert '"name": "f"' in record.text


def test_null_and_empty_deltas_and_empty_choices_are_no_tokens() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    record = streamed(delta(content=None), delta(content=""), {"choices": None}, delta(content="x"), STOP, usage)
    assert record.chunk_times_s == (4.0,)
    assert (record.prompt_tokens, record.output_tokens) == (3, 1)
    assert record.ok


def test_the_last_usage_counts_and_only_the_first_chunks_own_usage_names_its_tokens() -> None:
    first = delta(content="ab") | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    second = delta(content="c") | {"usage": {"prompt_tokens": 3, "completion_tokens": 3}}
    record = streamed(first, second, STOP)
    assert (record.first_chunk_tokens, record.output_tokens) == (2, 3)
    late = streamed(delta(content="ab"), second, STOP)
    assert late.first_chunk_tokens is None


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        (["{broken"], "not a JSON object: {broken"),
        (["[1]"], "not a JSON object: [1]"),
        ([{"error": {"message": "boom"}}], "error in the stream after 0 chunks: boom"),
        ([{"error": "boom"}], "error in the stream after 0 chunks: boom"),
        ([{"object": "error", "message": "boom"}], "error in the stream after 0 chunks: boom"),
        ([delta(content="a")], "the answer ended unfinished after 1 chunks"),
        ([], "the answer ended unfinished after 0 chunks"),
    ],
)
def test_what_is_not_a_complete_answer_is_an_error(documents: list[Any], reason: str) -> None:
    assert streamed(*documents).error == reason


def test_a_finish_reason_without_done_completes_an_answer() -> None:
    assert streamed(delta(content="a"), STOP).ok


def test_token_counts_that_are_no_counts_are_unknown() -> None:
    record = streamed(delta(content="a"), STOP | {"usage": {"completion_tokens": "12", "prompt_tokens": -1}})
    assert (record.output_tokens, record.prompt_tokens) == (None, None)


def test_a_whole_answer_keeps_text_reasoning_and_counts() -> None:
    answer = AnswerBuilder(3, 0.0, 1.0)
    message = {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
    choice = {"message": message, "finish_reason": "stop"}
    answer.whole(json.dumps({"model": "m", "choices": [choice], "usage": {"completion_tokens": 4}}))
    record = answer.record(2.0, streamed=False)
    assert (record.text, record.reasoning, record.output_tokens) == ("yes", "hm", 4)
    assert (record.first_token_s, record.last_token_s) == (None, 2.0)
    assert record.ok
