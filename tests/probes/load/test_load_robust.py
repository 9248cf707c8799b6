"""Stalls: what is one and what is not, and that the clock that leaves them out is a clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated.lockstep import asked, steady, window

from probes.load.metrics import compute
from probes.load.robust import RARE, Stall, excess_s, find_stalls, rare_silences, without_stalls
from probes.load.types import RequestRecord

PAUSE_S = 2.0


def paused(at: int, pause_s: float = PAUSE_S) -> list[float]:
    silences = steady()
    silences[at] += pause_s
    return silences


def rate(records: tuple[RequestRecord, ...]) -> float:
    return compute(records, asked(records)).rates["output_tok_per_s"]


def test_a_window_without_a_stall_keeps_its_records_and_so_its_figures() -> None:
    records = window(steady())
    assert find_stalls(records) == ()
    assert without_stalls(records, ()) == records


@pytest.mark.parametrize("at", [5, 32, 33, 64, 95], ids=["decoding", "reading", "first step", "third round", "last"])
def test_one_pause_of_the_engine_is_found_and_its_excess_taken_off_the_clock(at: int) -> None:
    records = window(paused(at))
    stalls = find_stalls(records)
    assert stalls is not None
    assert [stall.excess_s for stall in stalls] == [pytest.approx(PAUSE_S)]
    assert rate(without_stalls(records, stalls)) == pytest.approx(rate(window(steady())))
    assert rate(records) < 0.8 * rate(window(steady()))


def test_latencies_are_those_of_the_window_without_the_pause() -> None:
    calm = compute(window(steady()), asked(window(steady()))).summaries
    records = window(paused(40))
    found = compute(without_stalls(records, find_stalls(records) or ()), asked(records)).summaries
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert found[name].mean.value == pytest.approx(calm[name].mean.value)
        assert found[name].max == pytest.approx(calm[name].max)


def test_what_recurs_is_how_the_engine_works_and_counts_in_full() -> None:
    silences = steady()
    for at in (10, 40, 70):
        silences[at] += PAUSE_S
    records = window(silences)
    assert find_stalls(records) == ()
    assert sum(silence > 1 for silence in silences) == RARE + 1


def test_two_pauses_are_still_two_stalls() -> None:
    silences = paused(10)
    silences[70] += 1.0
    stalls = find_stalls(window(silences))
    assert stalls is not None
    assert [stall.excess_s for stall in stalls] == [pytest.approx(PAUSE_S), pytest.approx(1.0)]


def test_reading_prompts_is_no_stall_however_much_longer_than_a_step_it_takes() -> None:
    assert find_stalls(window(steady(prompt_s=3.0))) == ()


def test_a_long_silence_before_the_first_content_has_nothing_to_be_compared_with() -> None:
    assert find_stalls(window(paused(0))) == ()


def test_a_hiccup_below_a_twentieth_of_the_window_is_left_alone() -> None:
    lasts_s = sum(steady())
    assert find_stalls(window(paused(50, 0.04 * lasts_s))) == ()
    assert find_stalls(window(paused(50, 0.11 * lasts_s)))


def test_time_without_any_request_in_flight_is_no_silence() -> None:
    early, late = window(steady(rounds=1)), window(steady(rounds=1))
    shift_s = 60.0
    moved = without_stalls(late, (Stall(start_s=-1.0, end_s=0.0, excess_s=0.0),))
    later = [
        replace(
            record,
            id=record.id + 4,
            scheduled_s=record.scheduled_s + shift_s,
            sent_s=record.sent_s + shift_s,
            end_s=record.end_s + shift_s,
            first_token_s=(record.first_token_s or 0) + shift_s,
            last_token_s=(record.last_token_s or 0) + shift_s,
            chunk_times_s=tuple(time_s + shift_s for time_s in record.chunk_times_s),
        )
        for record in moved
    ]
    assert find_stalls([*early, *later]) == ()


def test_answers_without_token_times_cannot_tell() -> None:
    whole = [replace(record, chunk_times_s=(), first_token_s=None) for record in window(steady())]
    assert find_stalls(whole) is None


def test_more_requests_may_hold_more_stalls() -> None:
    assert [rare_silences(n) for n in (1, 49, 50, 640)] == [2, 2, 3, 14]


def test_one_slow_request_of_many_in_flight_is_no_stall_of_the_engine() -> None:
    records = window(steady())
    slow = records[1]
    held = replace(
        slow,
        chunk_times_s=(*slow.chunk_times_s[:-1], slow.chunk_times_s[-1] + 1.0),
        last_token_s=(slow.last_token_s or 0) + 1.0,
        end_s=slow.end_s + 1.0,
    )
    assert find_stalls([records[0], held, *records[2:]]) == ()


def test_many_windows_at_once_are_seen_as_one_by_one() -> None:
    rng = np.random.default_rng(5)
    rows = np.asarray([paused(int(rng.integers(1, 96)), 3 * rng.random()) for _ in range(40)])
    rows *= np.exp(rng.normal(0, 0.1, rows.shape))
    opens = np.asarray([silence == 0.2 for silence in steady()])
    together = excess_s(rows, opens[None, :]).sum(axis=1)
    alone = [sum(stall.excess_s for stall in find_stalls(window(row.tolist())) or ()) for row in rows]
    assert together == pytest.approx(alone)
    assert 5 < (together > 0).sum() < 40


TIMES = st.lists(st.floats(0, 100), min_size=2, max_size=40)


@given(TIMES, st.lists(st.tuples(st.floats(0, 90), st.floats(0.01, 5)), max_size=3))
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
def test_the_clock_without_stalls_never_runs_backwards_and_never_faster(
    times: list[float], spans: list[tuple[float, float]]
) -> None:
    stalls, end_s = [], 0.0
    for gap_s, length_s in spans:
        start_s = end_s + gap_s
        end_s = start_s + length_s
        stalls.append(Stall(start_s=start_s, end_s=end_s, excess_s=length_s / 2))
    ordered = sorted(times)
    record = RequestRecord(id=0, scheduled_s=0.0, sent_s=0.0, end_s=ordered[-1], chunk_times_s=tuple(ordered))
    moved = without_stalls([record], stalls)[0].chunk_times_s
    steps = zip(np.diff(ordered), np.diff(moved), strict=True)
    assert all(-1e-9 <= after <= before + 1e-9 for before, after in steps)
