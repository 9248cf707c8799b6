"""Metrics pages of every kind, and what moved between two of them."""

from __future__ import annotations

import pytest

from probes.events.prometheus import Series, parse
from probes.events.vocabulary import ENGINES, FACTS, engine_of
from probes.events.window import measure


def test_labels_with_quotes_commas_and_braces_are_kept() -> None:
    page = parse('a_total{path="/v1/{id}",text="say \\"hi\\", x"} 3\n')
    ((series, value),) = page.values.items()
    assert (series.label("path"), series.label("text"), value) == ("/v1/{id}", 'say "hi", x', 3)


def test_one_bad_line_costs_one_line() -> None:
    page = parse('good 1\nthis is no metric\nx{a=b} 2\nbetter 3 # {trace_id="x"} 0.5\nnothing NaN\n# EOF\n')
    assert page.values == {Series("good", ()): 1, Series("better", ()): 3}
    assert [problem.split(" is")[0] for problem in page.problems] == ["line 2", "line 3"]


@pytest.mark.parametrize(
    "text", ["", "<html>", "\x00\x01", "{" * 5000, "a" * 100_000, '{"json": 1}', "# TYPE\n# HELP\n"]
)
def test_a_page_of_nonsense_is_empty_and_never_an_exception(text: str) -> None:
    assert not parse(text).values


def test_names_that_an_exporter_rewrote_are_found() -> None:
    for name in ("vllm:num_requests_running", "vllm_num_requests_running", "ray_vllm_num_requests_running"):
        page = parse(f"{name} 4\n")
        assert engine_of(page) == "vllm"
        assert measure("vllm", [(0.0, page), (1.0, page)]).signals[0] is not None
        assert sum(page.named("vllm:num_requests_running").values()) == 4


def test_counters_are_differences_and_engines_behind_one_page_are_joined() -> None:
    pages = [
        (0.0, parse('vllm:prompt_tokens_total{engine="0"} 100\nvllm:prompt_tokens_total{engine="1"} 50\n')),
        (2.0, parse('vllm:prompt_tokens_total{engine="0"} 130\nvllm:prompt_tokens_total{engine="1"} 60\n')),
    ]
    facts = {signal.name: signal for signal in measure("vllm", pages).signals}
    assert facts["prompt_tokens"].value == 40
    assert facts["prompt_tokens_per_s"].value == 20
    assert facts["preemptions"].quality == "absent"


def test_gauges_are_weighted_by_time_and_the_cache_by_its_fullest_engine() -> None:
    def page(running: int, first: float, second: float) -> str:
        cache = f'vllm:kv_cache_usage_perc{{engine="0"}} {first}\nvllm:kv_cache_usage_perc{{engine="1"}} {second}\n'
        return f"vllm:num_requests_running {running}\n{cache}"

    pages = [(0.0, parse(page(0, 0.1, 0.9))), (1.0, parse(page(4, 0.2, 0.3))), (5.0, parse(page(4, 0.2, 0.3)))]
    facts = {signal.name: signal.value for signal in measure("vllm", pages).signals}
    assert facts["running_mean"] == pytest.approx(3.6)
    assert facts["kv_used_max"] == pytest.approx(0.9)


def test_a_counter_that_fell_is_a_restart_and_counts_from_nought() -> None:
    pages = [(float(at), parse(f"vllm:prompt_tokens_total {n}\n")) for at, n in enumerate((100, 120, 5, 9))]
    found = measure("vllm", pages)
    assert found.restarts == 1
    assert next(signal.value for signal in found.signals if signal.name == "prompt_tokens") == 29


def test_a_metric_that_appears_later_is_no_restart() -> None:
    pages = [(0.0, parse("vllm:num_requests_running 1\n")), (1.0, parse("vllm:prompt_tokens_total 5\n"))]
    assert measure("vllm", pages).restarts == 0


def test_every_fact_of_every_engine_is_told_or_absent_with_a_reason() -> None:
    for engine in ENGINES:
        page = parse("nothing_known 1\n")
        found = measure(engine, [(0.0, page), (1.0, page)]).signals
        assert {signal.name for signal in found} == set(FACTS)
        assert all(signal.quality == "absent" and signal.source for signal in found)
