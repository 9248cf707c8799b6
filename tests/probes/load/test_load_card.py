"""The card of a valid window: every figure under its name, every refusal with its reason."""

from __future__ import annotations

import json

from load_samples import ask, record

from probes.base import Verdict, Where
from probes.load.card import card, document
from probes.load.metrics import compute
from probes.load.probe import observe
from probes.load.types import Closed, LoadResult, LoopLag, Slo, Window

REQUEST = ask("http://127.0.0.1:1", arrivals=Closed(2), requests=12, slo=Slo(e2e_s=9.0))
RECORDS = tuple(record(n, float(n // 2), n // 2 + 0.2, 0.1, 9) for n in range(12))


def sample() -> LoadResult:
    lag = LoopLag(beats=500, mean_s=0.0005, p99_s=0.002, max_s=0.004)
    metrics = compute(RECORDS, REQUEST)
    window = Window(records=RECORDS, warmup=(), lag=lag, wall_s=6.5)
    return LoadResult(request=REQUEST, window=window, window_s=metrics.window_s, metrics=metrics)


def test_the_card_shows_figures_intervals_and_what_is_withheld() -> None:
    observation = observe(sample(), where=Where(whole_system=True))
    assert observation.verdict is Verdict.PASS, observation.summary
    text = card(observation, sample())
    assert text.startswith("18.0 tok/s · TTFT p50 0.2 s · TPOT p50 100 ms · 12 requests in 6.00 s")
    assert "TTFT, from send" in text
    assert "p50" in text
    assert "p99 needs 662 samples, 12 were taken" in text
    assert "within the SLO" in text
    assert "FAIL" not in text


def test_the_document_holds_every_quantity_with_unit_and_sample_size() -> None:
    observation = observe(sample(), where=Where(whole_system=True))
    quantities = {item["name"]: item for item in json.loads(document(observation))["quantities"]}
    assert quantities["ttft_p50_s"]["n"] == 12
    assert quantities["ttft_p50_s"]["unit"] == "s"
    assert quantities["output_tok_per_s"]["value"] == 18.0
    assert "ttft_p75_s" not in quantities
    names = {"ttft_s", "ttft_max_s", "tpot_s", "tpot_max_s", "e2e_s", "e2e_max_s", "chunk_gap_s", "itl_s"}
    assert names <= quantities.keys()


def test_signals_tell_the_load_and_how_much_ran_at_once() -> None:
    signals = observe(sample(), where=Where(whole_system=True)).signals
    assert signals["concurrency"] == 2
    assert signals["in_flight_max"] == 2
    assert signals["decoding_max"] == 2
    assert signals["tokens_per_request"] == 9
