"""Overlap of decoding, from records whose overlap is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from probes.base import Rung, Verdict
from probes.events.overlap import Overlap, measure, observe
from probes.load.types import RequestRecord


def answered(number: int, sent_s: float, first_s: float, last_s: float, **fields: object) -> RequestRecord:
    known: dict[str, object] = {
        "id": number, "scheduled_s": sent_s, "sent_s": sent_s, "end_s": last_s,
        "first_token_s": first_s, "last_token_s": last_s, "chunk_times_s": (first_s, last_s), "output_tokens": 10,
    }  # fmt: skip
    return RequestRecord(**(known | fields))  # type: ignore[arg-type]


def seen(records: Sequence[RequestRecord]) -> Overlap:
    overlap = measure(records)
    assert isinstance(overlap, Overlap), overlap
    return overlap


# Four users at once, one served after the other: each waits 0.1 s, then decodes for 0.9 s.
SERIAL = [answered(n, 0.0, n + 0.1, n + 1.0) for n in range(4)]
BATCHED = [answered(n, 0.0, 0.2, 2.2) for n in range(4)]


def test_serial_service_is_recognised_with_its_exact_waits() -> None:
    overlap = seen(SERIAL)
    assert overlap.serialised
    assert (overlap.decoding_max, overlap.in_flight_max) == (1, 4)
    assert overlap.shared_s == pytest.approx(3.0)
    assert overlap.decoding_mean == pytest.approx(0.9)
    assert overlap.decoding_mean_active == pytest.approx(1.0)
    assert overlap.in_flight_mean == pytest.approx((4 + 3 + 2) / 3)
    # Waits behind others: 0, 0.9, 1.8 and 2.7 s, of 0.1 + 1.1 + 2.1 + 3.1 s to first tokens and 10 s in all.
    assert overlap.queue_share == pytest.approx(5.4 / 6.4)
    assert overlap.queue_wait_share == pytest.approx(5.4 / 10)


def test_batched_service_is_recognised() -> None:
    overlap = seen(BATCHED)
    assert not overlap.serialised
    assert (overlap.decoding_max, overlap.queue_share) == (4, 0.0)
    assert overlap.decoding_mean == pytest.approx(4 * 2.0 / 2.2)


def test_long_prefills_of_a_batching_server_do_not_look_serial() -> None:
    overlap = seen([answered(n, 0.0, 3.0, 4.0) for n in range(4)])
    assert overlap.decoding_mean == pytest.approx(1.0)
    assert not overlap.serialised


def test_a_touch_of_overlap_between_turns_is_still_serial() -> None:
    overlap = seen([answered(n, 0.0, n + 0.1, n + 1.15) for n in range(4)])
    assert overlap.decoding_max == 2
    assert overlap.serialised


def test_time_with_one_request_in_flight_does_not_count() -> None:
    alone = [answered(n, 10.0 + n, 10.1 + n, 10.9 + n) for n in range(4)]
    overlap = seen([*BATCHED, *alone])
    assert overlap.shared_s == pytest.approx(2.2)
    assert overlap.decoding_max == 4


def test_the_observation_names_place_and_facts() -> None:
    observation = observe(SERIAL)
    assert (observation.rung, observation.verdict) == (Rung.EVENTS, Verdict.PASS)
    assert observation.summary.startswith("1 of 4 requests decoding at a time; 54% of request time")
    assert observation.where.interval_s == (0.0, 3.0)
    assert observation.signals["serialised"] is True
    assert observe(BATCHED).summary == "4 of 4 requests decoding at a time"
    assert observe(BATCHED).signals["serialised"] is False


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "0 complete answers; at least 4 are needed"),
        (SERIAL[:3], "3 complete answers"),
        ([answered(n, 0.0, 1.0, 2.0, error="dropped") for n in range(4)], "0 complete answers"),
        ([*SERIAL[:3], answered(3, 0.0, 1.0, 2.0, first_token_s=None)], "1 of 4 answers have no first and last token"),
        ([answered(n, 2.0 * n, 2.0 * n + 0.1, 2.0 * n + 1) for n in range(4)], "never two requests in flight"),
        ([answered(n, 0.0, 4.0, 4.1) for n in range(4)], "decoding fills only 2% of the time"),
    ],
)
def test_records_that_cannot_show_it_give_no_verdict(records: list[RequestRecord], reason: str) -> None:
    observation = observe(records)
    assert observation.verdict is Verdict.INCONCLUSIVE
    assert reason in observation.summary
    assert "serialised" not in observation.signals
