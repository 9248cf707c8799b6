"""The client against a real server on the loopback interface."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from infra_agent.agent.brains.llm.capability import find_mode, label
from infra_agent.agent.brains.llm.client import Endpoint
from infra_agent.agent.brains.llm.types import Answer, Credentials, LlmSettings, Mode
from infra_agent.errors import EndpointError
from infra_agent.testing.replies import Call, Reply
from infra_agent.testing.scripted_llm import FEATURES, ScriptedLlm

BODY = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}
USAGE = {**BODY, "stream_options": {"include_usage": True}}


@contextmanager
def endpoint_of(llm: ScriptedLlm, key: str = "", **headers: str) -> Iterator[Endpoint]:
    with llm.serving():
        settings = LlmSettings(model=llm.model, base_url=llm.url)
        endpoint = Endpoint(settings, Credentials(api_key=key, headers=headers), time.monotonic)
        try:
            yield endpoint
        finally:
            endpoint.close()


def answer_of(reply: Reply, stream: bool = True, timeout_s: float = 30.0) -> Answer:
    with endpoint_of(ScriptedLlm(policy=[reply])) as endpoint:
        return endpoint.chat(USAGE if stream else BODY, stream, timeout_s)


FULL = Reply(
    content="some words, more than one piece of them",
    reasoning="thoughts that are longer than a piece",
    calls=(Call("measure", {"probe": "load"}), Call("consult", {"name": "x" * 60})),
    usage=(12, 34),
)


@pytest.mark.parametrize("stream", [True, False])
def test_streamed_or_whole_an_answer_is_the_same_and_reasoning_stands_apart(stream: bool) -> None:
    answer = answer_of(FULL, stream)
    assert answer.content == FULL.content
    assert answer.reasoning == FULL.reasoning
    assert [(call.name, len(call.arguments)) for call in answer.calls] == [("measure", 17), ("consult", 72)]
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (12, 34)
    assert (answer.finish, answer.cut) == ("tool_calls", "")


def test_usage_that_is_not_reported_is_none() -> None:
    assert answer_of(Reply(content="x", report_usage=False)).usage is None


@pytest.mark.parametrize("pieces", [0, 1, 2])
def test_a_cut_stream_keeps_what_came_and_says_that_it_was_cut(pieces: int) -> None:
    answer = answer_of(Reply(content="a whole sentence of several pieces", cut_after=pieces))
    assert answer.cut
    assert "a whole sentence of several pieces".startswith(answer.content)


def test_an_answer_without_end_is_ended() -> None:
    answer = answer_of(Reply(content="x" * 20_000, repeat=True))
    assert answer.cut.startswith("endless: more than")


def test_a_stream_that_only_trickles_ends_at_its_deadline() -> None:
    started_s = time.monotonic()
    answer = answer_of(Reply(content="late", drip_s=60.0), timeout_s=1.0)
    assert answer.cut.startswith("endless: not done after 1 s")
    assert time.monotonic() - started_s < 30


def test_an_answer_that_comes_too_late_may_be_asked_for_again() -> None:
    with pytest.raises(EndpointError) as caught:
        answer_of(Reply(content="late", delay_s=3.0), timeout_s=0.5)
    assert caught.value.again


@pytest.mark.parametrize(
    ("status", "again"),
    [(400, False), (401, False), (403, False), (404, False), (422, False), (429, True), (503, True)],
)
def test_a_refusal_says_whether_another_try_may_help(status: int, again: bool) -> None:
    reply = Reply(status=status, error="because", headers={"retry-after": "7"})
    with pytest.raises(EndpointError) as caught:
        answer_of(reply)
    assert (caught.value.status, caught.value.again, caught.value.retry_after) == (status, again, "7")
    assert "because" in caught.value.message


@pytest.mark.parametrize(
    "raw", [b'{"detail": "pinned to another model"}', b"pinned to another model", b'["pinned to another model"]']
)
def test_a_refusal_carries_the_servers_own_words_in_whatever_form(raw: bytes) -> None:
    with pytest.raises(EndpointError, match="answered 400: .*pinned to another model"):
        answer_of(Reply(status=400, raw=raw))


@pytest.mark.parametrize("raw", [b"<html>502</html>", b"", b"null", b"[]", b'{"choices": 5}', b'{"choices": [null]}'])
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_no_completion_is_an_error_or_an_empty_answer_never_a_crash(raw: bytes, stream: bool) -> None:
    try:
        answer = answer_of(Reply(raw=raw), stream)
    except EndpointError:
        return
    assert not answer.content
    assert not answer.calls


@pytest.mark.parametrize(
    "line",
    [
        b"data: {broken\n\n",
        b'data: {"choices": [{"delta": {"tool_calls": [null, {"function": 7}, {"index": "0"}]}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": {"x": 1}}, "finish_reason": 3}], "usage": {"prompt_tokens": "9"}}'
        b"\n\n",
        b'data: {"error": {"message": "out of memory"}}\n\n',
        b"data: [1, 2]\n\n",
    ],
)
def test_a_chunk_that_is_not_what_was_promised_is_survived(line: bytes) -> None:
    with endpoint_of(ScriptedLlm(policy=[Reply(raw=line)])) as endpoint:
        answer = endpoint.chat(USAGE, True, 10.0)
    assert answer.cut
    assert answer.usage is None


def test_nobody_there_is_an_error_that_names_the_address() -> None:
    settings = LlmSettings(model="m", base_url="http://127.0.0.1:9/v1")
    endpoint = Endpoint(settings, Credentials(), time.monotonic)
    with pytest.raises(EndpointError, match="cannot be reached") as caught:
        endpoint.chat(BODY, True, 5.0)
    endpoint.close()
    assert caught.value.where == "http://127.0.0.1:9/v1"


def test_key_and_extra_headers_are_sent_and_never_shown() -> None:
    llm = ScriptedLlm(policy=[Reply(content="x")], key="sk-secret")
    with endpoint_of(llm, "sk-secret", **{"x-team": "blue"}) as endpoint:
        endpoint.chat(BODY, False, 10.0)
    assert llm.asked[0].headers["x-team"] == "blue"
    assert "sk-secret" not in repr(Credentials(api_key="sk-secret", headers={"a": "sk-secret"}))


def test_the_client_itself_tries_once() -> None:
    llm = ScriptedLlm(policy=[Reply(status=503)] * 9)
    with endpoint_of(llm) as endpoint, pytest.raises(EndpointError):
        endpoint.chat(BODY, False, 10.0)
    assert len(llm.asked) == 1


MODES = {
    "everything": (FEATURES, "tools stream usage max_tokens"),
    "no usage in the stream": (FEATURES - {"stream_usage"}, "tools stream max_tokens"),
    "no streaming": (FEATURES - {"stream", "stream_usage"}, "tools whole max_tokens"),
    "no tools": (FEATURES - {"tools"}, "json_schema stream usage max_tokens"),
    "neither": (FEATURES - {"tools", "json_schema"}, "text stream usage max_tokens"),
    "nothing but text": (frozenset(), "text whole max_tokens"),
}


@pytest.mark.parametrize("case", MODES)
def test_the_best_way_to_ask_is_found_by_asking(case: str) -> None:
    features, wanted = MODES[case]
    llm = ScriptedLlm(policy=[], features=features)
    with endpoint_of(llm) as endpoint:
        found = find_mode(lambda mode, body: endpoint.chat(body, mode.stream, 10.0), llm.model)
    assert label(found.mode) == wanted
    assert all(asked.check for asked in llm.asked)


def answers(*given: Answer) -> list[Answer]:
    return list(given)


def test_a_model_that_takes_tools_and_does_not_call_them_is_asked_for_json_then_for_text() -> None:
    said = answers(Answer(content="I am ready"), Answer(content="ready!"), Answer(content="yes"))
    found = find_mode(lambda mode, body: said.pop(0), "m")
    assert found.mode.name == "text"
    assert "the tool was not called" in found.evidence


def test_an_endpoint_that_wants_the_other_name_of_the_token_limit_gets_it() -> None:
    def send(mode: Mode, body: dict[str, object]) -> Answer:
        if "max_tokens" in body:
            raise EndpointError("Unsupported parameter: use 'max_completion_tokens' instead", status=400)
        return Answer(content='{"ready": true}')

    found = find_mode(send, "o9")
    assert found.mode.limit_field == "max_completion_tokens"
    assert found.mode.name == "json_schema"


@pytest.mark.parametrize(("status", "text"), [(401, "bad key"), (404, "The model `m` does not exist"), (429, "slow")])
def test_what_no_other_way_of_asking_would_mend_ends_the_check(status: int, text: str) -> None:
    def send(mode: Mode, body: dict[str, object]) -> Answer:
        raise EndpointError(text, status=status)

    with pytest.raises(EndpointError, match=text.split()[0]):
        find_mode(send, "m")
