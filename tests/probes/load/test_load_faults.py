"""The menu of faults that made public load tools report wrong numbers: the client reports what the server really did.

Client and server stamp with one clock, so every chunk is compared with the moment at which it was written.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import pytest
from load_samples import PROMPTS, ask, window

from probes.base import Observation, Verdict
from probes.load.metrics import compute
from probes.load.mock import truth
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.mock.truth import Served
from probes.load.types import Closed, Constant, LoadResult, Prompt, RequestRecord

LATE_S = 0.3
"""How late a single stamp may be on a machine that does much else; the median is held to far less."""
MEDIAN_LATE_S = 0.02

Run = Callable[..., tuple[Observation, LoadResult, list[tuple[RequestRecord, Served]]]]


@pytest.fixture
def run(mock: MockProcess) -> Run:
    """Plays a script and pairs each record with what the server did for it, in order of arrival."""

    def go(script: Script, **changes: Any) -> tuple[Observation, LoadResult, list[tuple[RequestRecord, Served]]]:
        mock.play(script)
        observation, result = window(ask(mock.url, **({"requests": 6, "arrivals": Closed(1)} | changes)))
        return observation, result, list(zip(result.records, mock.truth(), strict=True))

    return go


STREAMS: dict[str, Script] = {
    "plain": Script(),
    "no role chunk": Script(role_chunk=False),
    "three tokens per chunk": Script(chunks=(3,) * 8, usage="every chunk"),
    "bundled first chunk": Script(chunks=(8, 1, 1, 1, 1, 1, 1), usage="every chunk"),
    "usage late": Script(usage_delay_s=0.2),
    "usage cumulative in every chunk": Script(usage="every chunk"),
    "usage with the last chunk": Script(usage="with last chunk"),
    "usage after done": Script(ending="usage after done"),
    "reasoning first": Script(chunks=(1,) * 8, reasoning_chunks=5),
    "reasoning under the other name": Script(chunks=(1,) * 8, reasoning_chunks=5, reasoning_key="reasoning"),
    "tool calls": Script(tool_chunks=10, finish_reason="tool_calls"),
    "finish reason in a chunk of its own": Script(finish_chunk=True),
    "done twice": Script(ending="done twice"),
    "no done": Script(ending="no done"),
    "carriage returns": Script(crlf=True),
    "several data lines per event": Script(multiline=True),
    "several data lines with carriage returns": Script(multiline=True, crlf=True),
    "comments": Script(comments=True),
    "byte order mark": Script(byte_order_mark=True),
    "characters split between packets": Script(split_utf8=True),
    "three bytes at a time": Script(trickle=True),
    "a stall in the middle": Script(fault="pause", pause_s=0.3),
    "a huge chunk": Script(huge_bytes=4_000_000),
    "framed by length": Script(framing="length"),
    "framed by the connection's end": Script(framing="close"),
    "connection closed after each answer": Script(keep_alive=False),
    "slow accept": Script(slow_accept_s=0.05, keep_alive=False),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_client_reports_what_was_served(name: str, run: Run) -> None:
    script = STREAMS[name]
    observation, result, pairs = run(script, per_chunk_usage=script.usage == "every chunk", requests=4)
    if name != "usage after done":  # what comes behind the end does not count, so there are no token counts
        assert observation.verdict is Verdict.PASS, observation.summary
    zero_s = result.window.zero_s
    delays = []
    for record, served in pairs:
        assert record.ok, record.error
        assert len(record.chunk_times_s) == len(served.chunk_times_s)
        delays += [
            zero_s + seen - wrote for seen, wrote in zip(record.chunk_times_s, served.chunk_times_s, strict=True)
        ]
        assert zero_s + record.sent_s <= served.received_s
        assert record.first_answer_s is not None
        index = next(i for i, kind in enumerate(served.chunk_kinds) if kind != "reasoning")
        assert record.first_answer_s == record.chunk_times_s[index]
    assert min(delays) >= 0, "a stamp cannot be earlier than the write"
    assert max(delays) <= LATE_S
    assert statistics.median(delays) <= MEDIAN_LATE_S


@pytest.mark.parametrize("name", ["three tokens per chunk", "bundled first chunk", "plain", "a stall in the middle"])
def test_time_per_token_is_the_servers_own(name: str, run: Run) -> None:
    script = STREAMS[name]
    _, result, pairs = run(script, per_chunk_usage=True, requests=6)
    ours = compute(result.records, result.request).summaries["tpot_s"].mean.value
    true = statistics.mean(found for _, served in pairs if (found := truth.tpot_s(served)) is not None)
    later = min(sum(served.chunk_tokens[1:]) for _, served in pairs)
    assert ours == pytest.approx(true, abs=LATE_S / later)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("reset", "connection failed after 3 chunks: Connection reset by peer"),
        ("bad chunk", "not a readable response after 3 chunks: not a chunk size"),
        ("html page", "asked for a stream, got text/html"),
        ("junk", "not a readable response after 0 chunks: not an HTTP/1.1 response"),
        ("compressed", "not a readable response after 0 chunks: the body is encoded with gzip"),
        ("two lengths", "not a readable response after 0 chunks"),
        ("endless head", "not a readable response after 0 chunks: the response's head is longer"),
    ],
)
def test_a_broken_answer_is_a_failure_with_its_reason(fault: str, reason: str, run: Run) -> None:
    observation, result, _ = run(Script(fault=fault), requests=1)
    assert observation.verdict is Verdict.INVALID
    assert result.records[0].error is not None
    assert result.records[0].error.startswith(reason)


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_an_http_error_is_a_failure_with_its_text(status: int, run: Run) -> None:
    observation, result, _ = run(Script(fail_every=1, fail_status=status), requests=2)
    assert observation.verdict is Verdict.INVALID
    assert f'HTTP {status}: {{"error": {{"message": "busy"}}}}' in observation.summary
    assert compute(result.records, result.request).rates == {}


def test_an_answer_that_was_complete_before_the_connection_broke_is_an_answer(run: Run) -> None:
    observation, result, _ = run(Script(ending="open after done"), requests=2, request_timeout_s=0.6)
    assert observation.verdict is Verdict.PASS, observation.summary
    assert all(record.ok for record in result.records)


def test_done_as_a_word_of_the_answer_ends_nothing(run: Run) -> None:
    _, result, _ = run(Script(model="[DONE]", first_token_s=0.01, gap_s=0.2), requests=1, model="[DONE]")
    assert result.records[0].ok
    assert len(result.records[0].chunk_times_s) == 10


def test_a_server_that_closes_idle_connections_costs_no_failure(run: Run) -> None:
    script = Script(idle_close_s=0.05, first_token_s=0.01, chunks=(1, 1), gap_s=0.001)
    observation, result, _ = run(script, arrivals=Constant(4.0), requests=8)
    assert [record.error for record in result.records] == [None] * 8
    assert observation.verdict is Verdict.PASS, observation.summary


def test_requests_that_wait_for_a_slot_are_late_from_their_schedule(run: Run) -> None:
    script = Script(slots=1, first_token_s=0.1, chunks=(1,))
    _, result, _ = run(script, arrivals=Constant(40.0), requests=8)
    last = result.records[-1]
    assert last.first_token_s is not None
    assert last.first_token_s - last.scheduled_s >= 8 * 0.1 - 7 / 40 - 0.002
    assert last.sent_s - last.scheduled_s <= LATE_S


LONG = tuple(Prompt.of(f"{n} " + "the quick brown fox jumps over the lazy dog and runs away " * 12) for n in range(8))


def test_a_prefix_cache_that_remembers_an_earlier_window_is_refused(mock: MockProcess) -> None:
    mock.play(Script(prefix_cache=True))
    again = [window(ask(mock.url, prompts=LONG, seed=7))[0] for _ in range(2)]
    assert again[0].verdict is Verdict.PASS, again[0].summary
    assert again[1].verdict is Verdict.INVALID
    assert {check.name for check in again[1].checks if not check.ok} == {"prefix cache"}
    fresh, _ = window(ask(mock.url, prompts=LONG, seed=8))
    assert fresh.verdict is Verdict.PASS, fresh.summary


def test_prefixes_that_the_prompts_share_may_be_cached(mock: MockProcess) -> None:
    mock.play(Script(prefix_cache=True))
    shared = "you are a helpful assistant who answers in one short sentence " * 20
    prompts = tuple(Prompt.of(f"{shared} question {n} about the number {n}") for n in range(8))
    observation, result = window(ask(mock.url, prompts=prompts, arrivals=Closed(1)))
    assert observation.verdict is Verdict.PASS, observation.summary
    assert sum(record.cached_tokens or 0 for record in result.records) > 1000
    assert result.window.counters["cached_tokens"] > 1000


def test_without_word_from_the_server_the_cache_is_named_as_not_checked(run: Run) -> None:
    observation, _, _ = run(Script())
    assert "prefix cache" in observation.detail["not_checked"]
    assert "prefix cache" not in {check.name for check in observation.checks}


def test_prompts_do_not_pollute_each_other_between_rounds(mock: MockProcess) -> None:
    mock.play(Script(prefix_cache=True))
    observation, result = window(ask(mock.url, prompts=LONG[:2], requests=8, arrivals=Closed(1)))
    assert observation.verdict is Verdict.PASS, observation.summary
    assert sum(record.cached_tokens or 0 for record in result.records) == 0
    assert PROMPTS
