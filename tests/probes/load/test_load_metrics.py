"""Definitions of the figures, on synthetic records: exact."""

from __future__ import annotations

import math

import pytest
from load_samples import ask, failure, record

from probes.load.metrics import compute, meets, tpot_doubt, tpot_s
from probes.load.summary import FLOORS, nearest_rank, summarise, wilson
from probes.load.types import Closed, Poisson, RequestRecord, Slo

ASKED = ask("http://127.0.0.1:1", arrivals=Closed(2), requests=4)


def test_rates_divide_the_tokens_of_complete_answers_by_the_full_window() -> None:
    records = [record(0, 0.0, 0.5, 0.1, 6), record(1, 0.0, 1.0, 0.25, 5), failure(2)]
    metrics = compute(records, ASKED)
    assert metrics.window_s == 2.0
    assert metrics.rates["output_tok_per_s"] == 11 / 2.0
    assert metrics.rates["total_tok_per_s"] == 31 / 2.0
    assert metrics.rates["requests_per_s"] == 1.0
    assert (metrics.successes, metrics.failures) == (2, 1)


def test_the_window_ends_with_the_last_content_not_with_the_last_byte() -> None:
    metrics = compute([record(0, 1.0, 1.5, 0.5, 2, end_s=9.0)], ASKED)
    assert metrics.window_s == 1.0
    assert metrics.summaries["e2e_s"].max == 1.0


def test_latency_from_schedule_and_from_send_are_two_figures() -> None:
    metrics = compute([record(0, 2.0, 2.5, 0.1, 3, scheduled_s=0.5)], ASKED)
    assert metrics.summaries["ttft_s"].mean.value == 0.5
    assert metrics.summaries["ttft_scheduled_s"].mean.value == 2.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 0.9 / 9),
        ({"first_chunk_tokens": 1}, 0.9 / 9),
        ({"first_chunk_tokens": 4, "output_tokens": 13}, 0.9 / 9),
        ({"output_tokens": None}, None),
        ({"output_tokens": 1}, None),
        ({"first_chunk_tokens": 10}, None),
        ({"chunk_times_s": (0.5,), "last_token_s": 0.5}, None),
    ],
)
def test_time_per_output_token_divides_by_tokens_after_the_first_chunk(
    changes: dict[str, object], expected: float | None
) -> None:
    found = tpot_s(record(0, 0.0, 0.5, 0.1, 10, **changes))
    assert found == (None if expected is None else pytest.approx(expected))


def test_one_missing_token_at_the_end_of_a_stopped_answer_raises_no_doubt() -> None:
    stopped = record(0, 0.0, 0.5, 0.1, 9, output_tokens=10, finish_reason="stop")
    assert tpot_doubt([stopped] * 3) is None
    cut = record(0, 0.0, 0.5, 0.1, 9, output_tokens=10)
    assert tpot_doubt([cut]) is not None


def test_an_answer_in_one_piece_has_no_time_per_token() -> None:
    burst = record(0, 0.0, 0.5, 0.1, 1, output_tokens=32)
    metrics = compute([record(1, 0.0, 0.5, 0.1, 32), burst], ASKED)
    assert "tpot_s" not in metrics.summaries
    assert "1 chunk" in metrics.withheld["tpot_s"]


def test_failed_requests_are_infinitely_slow_in_percentiles_and_absent_from_means() -> None:
    found = summarise([float(n) for n in range(1, 11)], failed=2)
    assert found is not None
    assert found.mean.value == 5.5
    assert found.max == 10.0
    assert found.percentiles[50].value == 6.0
    without = summarise([float(n) for n in range(1, 12)])
    assert without is not None
    assert without.percentiles[50].value == 6.0
    mostly = summarise([1.0] * 4, failed=8)
    assert mostly is not None
    assert mostly.percentiles[50].value == math.inf
    assert "failed" in mostly.withheld[50]


@pytest.mark.parametrize(("percent", "floor"), sorted(FLOORS.items()))
def test_a_percentile_appears_exactly_at_its_floor(percent: int, floor: int) -> None:
    below, at = summarise([1.0] * (floor - 1)), summarise([1.0] * floor)
    assert below is not None
    assert at is not None
    assert percent not in below.percentiles
    assert f"needs {floor} samples, {floor - 1} were taken" in below.withheld[percent]
    assert at.percentiles[percent].value == 1.0


def test_the_floors_are_those_of_mlperf() -> None:
    assert FLOORS == {50: 11, 75: 24, 90: 64, 95: 130, 99: 662}


def test_nearest_rank_returns_a_sample_that_exists() -> None:
    assert [nearest_rank([1.0, 2.0, 3.0, 4.0], p) for p in (25, 26, 50, 75, 76, 100)] == [1, 2, 2, 3, 4, 4]


def test_intervals_enclose_their_value_and_repeat_exactly() -> None:
    values = [0.1 * n for n in range(1, 31)]
    one, two = summarise(values), summarise(values)
    assert one == two
    assert one is not None
    for estimate in (one.mean, one.percentiles[50]):
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < estimate.value < estimate.high


def test_wilson_gives_the_textbook_interval() -> None:
    found = wilson(8, 10)
    assert (found.value, found.low, found.high) == pytest.approx((0.8, 0.4901625, 0.9433178), abs=1e-6)
    assert wilson(0, 10).low == 0.0
    with pytest.raises(ValueError):
        wilson(3, 2)


def test_the_steady_window_leaves_ramp_and_drain_out() -> None:
    # Two requests overlap in 1..2 s; before and after, one runs alone. Ten tokens each, one per 0.1 s.
    early = record(0, 0.0, 1.1, 0.1, 10, end_s=2.0)
    late = record(1, 1.0, 2.1, 0.1, 10, end_s=3.0)
    metrics = compute([early, late], ASKED)
    assert metrics.window_s == pytest.approx(3.0)
    assert metrics.rates["output_tok_per_s"] == pytest.approx(20 / 3)
    # All ten tokens of the first answer fall into (1.0, 2.0], none of the second.
    assert metrics.rates["steady_output_tok_per_s"] == pytest.approx(10.0)


def test_a_token_at_the_very_start_of_the_steady_window_was_made_before_it() -> None:
    early, late = record(0, 0.0, 0.5, 0.5, 4), record(1, 1.0, 2.5, 0.5, 2)
    assert compute([early, late], ASKED).rates["steady_output_tok_per_s"] == pytest.approx(2.0)


def test_the_steady_window_spreads_tokens_over_chunks_by_the_servers_count() -> None:
    chunky = [record(n, 0.0, 0.5, 0.1, 6, output_tokens=24, first_chunk_tokens=4) for n in (0, 1)]
    metrics = compute(chunky, ASKED)
    assert metrics.rates["steady_output_tok_per_s"] == pytest.approx(48 / 1.0)


def test_open_arrivals_have_no_steady_window() -> None:
    asked = ask("http://127.0.0.1:1", arrivals=Poisson(2.0), requests=2)
    metrics = compute([record(0, 0.0, 0.5, 0.1, 6), record(1, 0.3, 0.9, 0.1, 6)], asked)
    assert "steady_output_tok_per_s" not in metrics.rates
    assert "open arrivals" in metrics.withheld["steady_output_tok_per_s"]


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        (Slo(ttft_s=0.5), True),
        (Slo(ttft_s=0.49), False),
        (Slo(tpot_s=0.11), True),
        (Slo(tpot_s=0.09), False),
        (Slo(e2e_s=1.5), True),
        (Slo(ttft_s=0.5, e2e_s=1.0), False),
    ],
)
def test_a_request_is_good_when_every_limit_holds(slo: Slo, expected: bool) -> None:
    assert meets(record(0, 0.0, 0.5, 0.1, 10), slo) is expected
    assert not meets(failure(0), slo)


def test_goodput_needs_the_figures_of_its_limits() -> None:
    asked = ask("http://127.0.0.1:1", arrivals=Closed(2), requests=4, slo=Slo(tpot_s=0.2))
    metrics = compute([record(n, 0.0, 0.5, 0.1, 6, output_tokens=None) for n in range(4)], asked)
    assert "goodput_per_s" not in metrics.rates
    assert "tpot_s is part of the SLO" in metrics.withheld["goodput_per_s"]


def test_failures_count_against_goodput() -> None:
    asked = ask("http://127.0.0.1:1", arrivals=Closed(2), requests=4, slo=Slo(e2e_s=9.0))
    metrics = compute([record(0, 0.0, 0.5, 0.1, 6), failure(1), failure(2), record(3, 0.0, 0.5, 0.1, 6)], asked)
    assert metrics.goodput_share is not None
    assert metrics.goodput_share.value == 0.5
    assert metrics.rates["goodput_per_s"] == 2 / 1.0


def test_nothing_answered_gives_no_figure_at_all() -> None:
    records: list[RequestRecord] = [failure(0), failure(1)]
    metrics = compute(records, ASKED)
    assert metrics.window_s is None
    assert not metrics.rates
    assert not metrics.summaries
    assert metrics.failures == 2
