"""The checks on windows made by hand: each fails for its own reason only."""

from __future__ import annotations

import dataclasses

import pytest
from load_samples import PROMPTS, ask, record

from probes.base import Verdict, Where
from probes.load.metrics import compute
from probes.load.probe import observe
from probes.load.types import Closed, LoadRequest, LoadResult, LoopLag, Poisson, RequestRecord, Window
from probes.load.validity import Limits, check

QUIET = LoopLag(beats=500, mean_s=0.0005, p99_s=0.002, max_s=0.004)
ASKED = ask("http://127.0.0.1:1", arrivals=Closed(2), requests=4)
# Two users, two requests each, no pause between them.
GOOD = tuple(record(n, float(n // 2), n // 2 + 0.2, 0.1, 9) for n in range(4))


def failing(
    records: tuple[RequestRecord, ...] = GOOD,
    *,
    request: LoadRequest = ASKED,
    lag: LoopLag = QUIET,
    limits: Limits | None = None,
) -> set[str]:
    window = Window(records=records, warmup=(), lag=lag, wall_s=3.0)
    return {item.name for item in check(window, request, limits or Limits()) if not item.ok}


def changed(**fields: object) -> tuple[RequestRecord, ...]:
    return (dataclasses.replace(GOOD[0], **fields), *GOOD[1:])


def test_a_sound_window_passes_every_check() -> None:
    assert failing() == set()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"error": "HTTP 500"}, "failures"),
        ({"model": None}, "model"),
        ({"model": "other"}, "model"),
        ({"output_tokens": None}, "token counts"),
        ({"output_tokens": 65}, "token counts are plausible"),
        ({"finish_reason": "content_filter"}, "finish reason"),
    ],
)
def test_one_bad_answer_is_enough(fields: dict[str, object], name: str) -> None:
    assert name in failing(changed(**fields))


def test_a_default_revision_behind_the_name_is_the_same_model_and_another_is_not() -> None:
    assert failing(tuple(dataclasses.replace(r, model="mock@main") for r in GOOD)) == set()
    assert failing(tuple(dataclasses.replace(r, model="mock@tuned") for r in GOOD)) == {"model"}


def test_an_empty_answer_is_refused() -> None:
    assert failing(changed(output_tokens=0, text="", chunk_times_s=())) == {"empty answers"}


def test_requests_that_were_never_sent_are_failures() -> None:
    assert failing(GOOD[:3]) == {"failures"}


def test_all_requests_failing_is_invalid_whatever_is_allowed() -> None:
    records = tuple(dataclasses.replace(r, error="HTTP 500") for r in GOOD)
    assert failing(records, limits=Limits(allowed_failures=10)) == {"failures"}


def test_a_cap_below_the_asked_concurrency_is_seen() -> None:
    one_by_one = tuple(record(n, float(n), n + 0.2, 0.1, 9) for n in range(4))
    assert failing(one_by_one) == {"peak in flight", "mean in flight"}


def test_pauses_between_requests_are_seen() -> None:
    paused = tuple(record(n, 2.0 * (n // 2), 2.0 * (n // 2) + 0.2, 0.1, 9) for n in range(4))
    assert failing(paused) == {"mean in flight"}


def test_more_users_than_requests_are_not_expected_in_flight() -> None:
    request = ask("http://127.0.0.1:1", arrivals=Closed(16), requests=4)
    assert failing(tuple(record(n, 0.0, 0.2, 0.1, 9) for n in range(4)), request=request) == set()


@pytest.mark.parametrize(
    ("lag", "ttft_s", "ok"),
    [
        (LoopLag(beats=500, mean_s=0.0029, p99_s=0.014, max_s=0.08), 0.1, True),
        (LoopLag(beats=500, mean_s=0.0031, p99_s=0.014, max_s=0.08), 0.1, False),
        (LoopLag(beats=500, mean_s=0.0029, p99_s=0.016, max_s=0.08), 0.1, False),
        (LoopLag(beats=500, mean_s=0.0029, p99_s=0.014, max_s=0.10), 0.1, False),
        (LoopLag(beats=500, mean_s=0.0190, p99_s=0.090, max_s=0.50), 2.0, True),
        (LoopLag(beats=500, mean_s=0.0210, p99_s=0.090, max_s=0.50), 2.0, False),
        (LoopLag(beats=0, mean_s=0.0, p99_s=0.0, max_s=0.0), 0.1, False),
    ],
)
def test_a_client_later_than_a_hundredth_of_the_first_token_is_refused(lag: LoopLag, ttft_s: float, ok: bool) -> None:
    records = tuple(record(n, 3.0 * (n // 2), 3.0 * (n // 2) + ttft_s, (3.0 - ttft_s) / 8, 9) for n in range(4))
    assert failing(records, lag=lag) == (set() if ok else {"client delay"})


def test_open_arrivals_sent_behind_schedule_are_refused() -> None:
    request = ask("http://127.0.0.1:1", arrivals=Poisson(2.0), requests=4)
    on_time = tuple(record(n, n * 0.5, n * 0.5 + 0.2, 0.1, 9) for n in range(4))
    late = tuple(dataclasses.replace(r, scheduled_s=r.sent_s / 1.1) for r in on_time)
    assert failing(on_time, request=request) == set()
    assert failing(late, request=request) == {"arrival rate", "client delay"}


def test_equal_texts_for_different_prompts_are_refused_only_when_long_enough_to_tell() -> None:
    assert failing(tuple(dataclasses.replace(r, text="same") for r in GOOD)) == {"answers differ"}
    short = tuple(record(n, float(n // 2), n // 2 + 0.2, 0.4, 3, text="same") for n in range(4))
    assert failing(short) == set()


def test_a_repeat_is_a_replay_only_when_identical_and_far_faster() -> None:
    request = ask("http://127.0.0.1:1", arrivals=Closed(1), requests=2, prompts=PROMPTS[:1])
    slow = record(0, 0.0, 0.2, 0.1, 9, text="same")
    instant = record(1, 1.0, 1.01, 0.01, 9, text="same")
    assert failing((slow, instant), request=request) == {"no replayed answers"}
    assert failing((slow, dataclasses.replace(instant, text="other")), request=request) == set()
    assert failing((slow, record(1, 1.0, 1.1, 0.05, 9, text="same")), request=request) == set()


def test_an_invalid_window_carries_reasons_and_no_quantity() -> None:
    records = changed(model="other")
    window = Window(records=records, warmup=(), lag=QUIET, wall_s=3.0)
    result = LoadResult(request=ASKED, window=window, window_s=2.0, metrics=compute(records, ASKED))
    observation = observe(result, where=Where(whole_system=True))
    assert observation.verdict is Verdict.INVALID
    assert observation.quantities == ()
    assert observation.signals == {}
    assert "model: mock, other (limit: mock)" in observation.summary


def test_answers_that_may_not_end_early_and_do_are_refused() -> None:
    request = ask("http://127.0.0.1:1", arrivals=Closed(2), requests=4, max_tokens=9, extra_body={"ignore_eos": True})
    assert failing(request=request) == set()
    halved = tuple(record(n, float(n // 2), n // 2 + 0.2, 0.2, 5) for n in range(4))
    assert failing(halved, request=request) == {"full length"}


def test_a_chunk_count_above_the_total_is_refused() -> None:
    assert failing(changed(chunk_tokens=(2,) * 9)) == {"tokens per chunk"}
    assert failing(changed(chunk_tokens=(1,) * 9)) == set()


def test_a_window_that_was_cut_is_refused() -> None:
    window = Window(records=GOOD, warmup=(), lag=QUIET, wall_s=3.0, cut="the time limit was reached")
    assert {item.name for item in check(window, ASKED, Limits()) if not item.ok} == {"time limit"}


def test_the_longest_answer_is_judged_by_its_own_limit() -> None:
    short = tuple(dataclasses.replace(prompt, max_tokens=8) for prompt in PROMPTS)
    request = ask("http://127.0.0.1:1", arrivals=Closed(2), requests=4, prompts=short)
    assert failing(request=request) == {"token counts are plausible"}
