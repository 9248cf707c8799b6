"""The client against a real HTTP server, in a process of its own, whose token times are known."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from load_samples import PROMPTS, ask, window

from probes.base import Observation, Verdict
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.mock.truth import Served
from probes.load.types import Closed, LoadResult, Poisson, Prompt, Slo
from probes.load.validity import Limits

Measure = Callable[..., tuple[Observation, LoadResult, "Told"]]
LATE_S = 0.1
"""How late a stamp may be on a busy machine. Early is never allowed."""
EARLY_S = 0.002


@dataclass
class Told:
    """What the server says that it saw and did."""

    served: list[Served]
    connections: int

    @property
    def bodies(self) -> list[Any]:
        return [served.body for served in self.served]


@pytest.fixture
def measured(mock: MockProcess) -> Measure:
    def measure(script: Script, **changes: Any) -> tuple[Observation, LoadResult, Told]:
        mock.play(script)
        observation, result = window(ask(mock.url, **changes))
        told = mock.told()
        return observation, result, Told(mock.truth(), told["connections"])

    return measure


def value(observation: Observation, name: str) -> float:
    quantity = observation.quantity(name)
    assert quantity is not None, observation.summary
    return quantity.value


def failed_checks(observation: Observation) -> set[str]:
    assert observation.verdict is Verdict.INVALID
    assert observation.quantities == ()
    return {check.name for check in observation.checks if not check.ok}


def test_every_figure_of_a_known_server_comes_back_as_it_was_served(measured: Measure) -> None:
    script = Script(first_token_s=0.1, gap_s=0.02, chunks=(1,) * 20)
    observation, result, server = measured(script)
    assert observation.verdict is Verdict.PASS, observation.summary
    assert 0.1 - EARLY_S <= value(observation, "ttft_s") <= 0.1 + LATE_S
    assert value(observation, "tpot_s") == pytest.approx(0.02, abs=LATE_S / 19)
    assert value(observation, "itl_s") == value(observation, "chunk_gap_s") == pytest.approx(0.02, abs=LATE_S / 19)
    e2e_s = 0.1 + 19 * 0.02
    assert e2e_s - EARLY_S <= value(observation, "e2e_s") <= e2e_s + LATE_S
    assert result.window_s is not None
    assert 2 * e2e_s - EARLY_S <= result.window_s <= 2 * e2e_s + 2 * LATE_S
    assert value(observation, "output_tok_per_s") == pytest.approx(160 / result.window_s)
    prompt_tokens = sum(served.prompt_tokens for served in server.served)
    assert value(observation, "total_tok_per_s") == pytest.approx((160 + prompt_tokens) / result.window_s)
    assert value(observation, "requests_per_s") == pytest.approx(8 / result.window_s)
    assert value(observation, "steady_output_tok_per_s") == pytest.approx(160 / result.window_s, rel=0.3)
    assert value(observation, "mean_output_tokens") == 20
    assert value(observation, "failures") == 0
    assert observation.quantity("ttft_p50_s") is None
    assert all(body["stream_options"] == {"include_usage": True} for body in server.bodies)


def test_stamps_agree_with_the_times_at_which_the_server_wrote(measured: Measure) -> None:
    _, result, server = measured(Script(first_token_s=0.05, gap_s=0.03), requests=1, arrivals=Closed(1))
    wrote, read = server.served[0].chunk_times_s, result.records[0].chunk_times_s
    assert len(wrote) == len(read) == 10
    offset = read[0] - wrote[0]
    assert [r - w - offset for r, w in zip(read, wrote, strict=True)] == pytest.approx([0] * 10, abs=LATE_S)


@pytest.mark.parametrize("role_chunk", [True, False])
def test_an_empty_role_chunk_is_not_a_token(role_chunk: bool, measured: Measure) -> None:
    observation, result, _ = measured(Script(first_token_s=0.2, role_chunk=role_chunk))
    assert value(observation, "ttft_s") >= 0.2 - EARLY_S
    assert all(len(record.chunk_times_s) == 10 for record in result.records)


def test_a_late_usage_chunk_is_outside_end_to_end(measured: Measure) -> None:
    observation, result, _ = measured(Script(usage_delay_s=0.4), requests=4)
    assert value(observation, "e2e_s") < 0.4
    assert all(record.end_s - record.sent_s >= 0.4 for record in result.records)
    assert all(record.output_tokens == 10 for record in result.records)


def test_chunks_of_several_tokens_are_not_counted_as_tokens(measured: Measure) -> None:
    script = Script(chunks=(4,) * 8, gap_s=0.04, usage="every chunk")
    observation, _, _ = measured(script, per_chunk_usage=True)
    assert value(observation, "mean_output_tokens") == 32
    assert value(observation, "tpot_s") == pytest.approx(7 * 0.04 / 28, abs=LATE_S / 28)
    assert value(observation, "chunk_gap_s") == pytest.approx(0.04, abs=LATE_S / 7)
    assert observation.quantity("itl_s") is None


def test_time_per_token_is_withheld_when_the_first_chunk_may_hide_tokens(measured: Measure) -> None:
    observation, _, _ = measured(Script(chunks=(4,) * 8))
    assert observation.verdict is Verdict.PASS
    assert observation.quantity("tpot_s") is None
    assert "first chunk" in observation.detail["withheld"]["tpot_s"]
    assert value(observation, "output_tok_per_s") > 0


def test_tokens_bundled_into_the_first_chunk_are_taken_off_the_count(measured: Measure) -> None:
    script = Script(chunks=(6, *(1,) * 10), gap_s=0.03, usage="every chunk")
    observation, result, _ = measured(script, per_chunk_usage=True)
    assert result.records[0].first_chunk_tokens == 6
    assert value(observation, "tpot_s") == pytest.approx(0.03, abs=LATE_S / 10)


def test_first_token_and_first_answer_token_are_two_figures(measured: Measure) -> None:
    script = Script(chunks=(1,) * 12, reasoning_chunks=8, first_token_s=0.05, gap_s=0.03)
    observation, result, _ = measured(script)
    assert value(observation, "ttft_s") < 0.05 + LATE_S < value(observation, "first_answer_s")
    assert value(observation, "first_answer_s") >= 0.05 + 8 * 0.03 - EARLY_S
    assert result.records[0].reasoning
    assert result.records[0].text


def test_without_token_counts_from_the_server_there_are_no_token_figures(measured: Measure) -> None:
    observation, result, _ = measured(Script(usage="never"))
    assert failed_checks(observation) == {"token counts"}
    assert "output_tok_per_s" in result.metrics.withheld
    assert "tpot_s" in result.metrics.withheld
    assert result.metrics.rates.keys() == {"requests_per_s"}


def test_usage_in_the_last_content_chunk_is_enough(measured: Measure) -> None:
    observation, _, _ = measured(Script(usage="with last chunk"))
    assert value(observation, "mean_output_tokens") == 10


def test_failures_count_neither_as_requests_nor_as_latencies(mock: MockProcess) -> None:
    mock.play(Script(fail_every=2))
    observation, result = window(ask(mock.url), limits=Limits(allowed_failures=4, lag_floor_s=30))
    assert observation.verdict is Verdict.PASS, observation.summary
    assert value(observation, "failures") == 4
    assert value(observation, "requests_per_s") == pytest.approx(4 / (result.window_s or 0))
    assert result.metrics.summaries["ttft_s"].n == 4
    assert sum(record.error == 'HTTP 503: {"error": {"message": "busy"}}' for record in result.records) == 4


def test_a_window_that_can_no_longer_be_valid_stops_early(measured: Measure) -> None:
    observation, result, server = measured(Script(fail_every=1), requests=40)
    assert failed_checks(observation) == {"failures"}
    assert len(server.bodies) < 12
    assert "were not sent: HTTP 503" in observation.summary
    assert result.window_s is None


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("drop", "connection failed after 3 chunks"),
        ("error event", "error in the stream after 3 chunks: out of blocks"),
        ("cut", "the answer ended unfinished after 3 chunks"),
        ("not a stream", "asked for a stream, got application/json"),
        ("http error", 'HTTP 400: {"error": {"message": "no such model"}}'),
        ("stall", "no complete answer within 0.5 s (3 chunks came)"),
    ],
)
def test_a_broken_answer_is_a_failure_with_its_reason(fault: str, reason: str, measured: Measure) -> None:
    observation, result, _ = measured(Script(fault=fault), requests=4, request_timeout_s=0.5)
    assert failed_checks(observation) == {"failures"}
    assert result.records[0].error is not None
    assert result.records[0].error.startswith(reason)


def test_another_model_than_asked_for_is_refused(measured: Measure) -> None:
    observation, _, _ = measured(Script(model="smaller-model"))
    assert failed_checks(observation) == {"model"}
    assert "smaller-model" in observation.summary


def test_one_canned_text_for_all_prompts_is_refused(measured: Measure) -> None:
    observation, _, _ = measured(Script(answers="canned"))
    assert failed_checks(observation) == {"answers differ"}


def test_answers_from_a_cache_that_ignores_the_nonce_are_refused(measured: Measure) -> None:
    script = Script(answers="cached by prompt", gap_s=0.05)
    observation, _, _ = measured(script, prompts=PROMPTS[:4], requests=8)
    assert failed_checks(observation) == {"no replayed answers"}


def test_an_answer_longer_than_asked_for_is_refused(measured: Measure) -> None:
    observation, _, _ = measured(Script(tokens_claimed=5128))
    assert failed_checks(observation) == {"token counts are plausible"}


def test_an_answer_without_a_reason_to_end_is_refused(measured: Measure) -> None:
    observation, _, _ = measured(Script(finish_reason=None))
    assert failed_checks(observation) == {"finish reason"}


def test_bytes_in_any_pieces_give_the_same_text(measured: Measure) -> None:
    _, whole, _ = measured(Script(), requests=4)
    _, pieces, _ = measured(Script(trickle=True, crlf=True), requests=4)
    assert [record.text for record in pieces.records] == [record.text for record in whole.records]
    assert any(not record.text.isascii() for record in whole.records)


def test_a_server_that_keeps_the_stream_open_after_the_end_costs_no_failure(measured: Measure) -> None:
    observation, _, _ = measured(Script(ending="open after done"), requests=4)
    assert observation.verdict is Verdict.PASS, observation.summary


def test_serial_and_batched_service_are_told_apart(measured: Measure) -> None:
    serial, _, _ = measured(Script(slots=1), requests=8)
    batched, _, _ = measured(Script(), requests=8)
    assert serial.signals["decoding_max"] == 1
    assert serial.signals["in_flight_max"] == batched.signals["in_flight_max"] == 4
    assert batched.signals["decoding_max"] == 4
    assert float(serial.signals["queue_share"]) > 0.3
    assert value(batched, "output_tok_per_s") > 2 * value(serial, "output_tok_per_s")


def test_whole_answers_give_end_to_end_and_no_token_times(measured: Measure) -> None:
    observation, _, server = measured(Script(), stream=False)
    assert value(observation, "e2e_s") >= 0.05 + 9 * 0.01 - EARLY_S
    assert value(observation, "output_tok_per_s") > 0
    assert all(observation.quantity(name) is None for name in ("ttft_s", "tpot_s", "steady_output_tok_per_s"))
    assert "stream_options" not in server.bodies[0]


def test_text_completions_are_measured_alike(measured: Measure) -> None:
    observation, result, server = measured(Script(role_chunk=False), endpoint="completions")
    assert value(observation, "mean_output_tokens") == 10
    assert "messages" not in server.bodies[0]
    assert result.records[0].text


def test_connections_are_open_before_the_window_and_none_is_opened_in_it(measured: Measure) -> None:
    _, _, server = measured(Script(), arrivals=Closed(12), requests=36)
    assert server.connections == 12
    assert [served.fresh_connection for served in server.served] == [False] * 36


def test_two_arms_with_one_seed_send_the_same_bytes_and_another_seed_does_not(measured: Measure) -> None:
    def sent(seed: int) -> list[str]:
        quick = Script(chunks=(1, 1), gap_s=0.001, first_token_s=0.01)
        _, _, server = measured(quick, seed=seed, prompts=PROMPTS[:4], arrivals=Closed(1), warmup_requests=2)
        return [body["messages"][0]["content"] for body in server.bodies]

    one, two, other = sent(1), sent(1), sent(2)
    assert one == two
    assert set(one).isdisjoint(other)
    assert len(set(one)) == len(one), "a repeated prompt must carry another nonce"


def test_warm_up_is_sent_first_with_other_prompts_and_left_out(measured: Measure) -> None:
    observation, result, server = measured(Script(), warmup_requests=3, nonce=False)
    contents = [body["messages"][0]["content"] for body in server.bodies]
    assert len(result.window.warmup) == 3
    assert len(result.records) == 8
    assert set(contents[:3]).isdisjoint(contents[3:])
    assert set(contents[3:]) == {prompt.messages[0].content for prompt in PROMPTS[:8]}
    assert observation.cost.requests == 11


def test_a_failed_warm_up_ends_the_window_before_it_begins(measured: Measure) -> None:
    observation, result, server = measured(Script(fault="http error"), warmup_requests=2)
    assert failed_checks(observation) == {"warm-up"}
    assert result.records == ()
    assert len(server.bodies) == 2


def test_a_server_that_is_not_there_is_named_as_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        observation, _ = window(ask(f"http://127.0.0.1:{taken.getsockname()[1]}"))
    assert failed_checks(observation) == {"failures"}
    assert "connection failed" in observation.summary


def test_open_arrivals_do_not_wait_for_a_slow_server(measured: Measure) -> None:
    script = Script(slots=1, first_token_s=0.1)
    observation, result, _ = measured(script, arrivals=Poisson(50.0), requests=12)
    assert observation.verdict is Verdict.PASS, observation.summary
    assert max(record.sent_s for record in result.records) < 1.5
    assert result.records[-1].end_s > 12 * 0.19 - EARLY_S
    assert value(observation, "ttft_scheduled_s") >= value(observation, "ttft_s")
    assert observation.quantity("ttft_p50_s") is not None
    assert "steady_output_tok_per_s" in observation.detail["withheld"]


def test_goodput_counts_only_requests_within_the_limits(measured: Measure) -> None:
    observation, _, _ = measured(Script(slots=1, first_token_s=0.1), slo=Slo(ttft_s=0.35), arrivals=Closed(4))
    share = observation.quantity("goodput_share")
    assert share is not None
    assert 0 < share.value < 0.5
    assert share.low is not None
    assert share.high is not None
    assert share.low < share.value < share.high
    assert value(observation, "goodput_per_s") < value(observation, "requests_per_s")


def test_credentials_are_sent_and_never_shown(mock: MockProcess) -> None:
    mock.play(Script())
    request = ask(mock.url, headers={"authorization": "Bearer secret-key"})
    observation, _ = window(request)
    assert "secret-key" not in f"{request} {observation}"


def test_a_prompt_of_several_turns_cannot_be_a_text_completion() -> None:
    talk = Prompt(PROMPTS[0].messages * 2)
    with pytest.raises(ValueError, match="single-message"):
        ask("http://127.0.0.1:1", prompts=(talk,), endpoint="completions")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port"])
def test_an_impossible_url_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ValueError):
        ask(url)
