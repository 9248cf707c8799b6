"""Two sets of results are judged only when nothing but the configuration can have made the difference."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest

from infra_agent.harness.foreign_results import compare
from probes.load.foreign.model import ForeignRun

METRIC = "output_tok_per_s"


def runs(values: list[float], start_s: float = 0.0, step_s: float = 200.0, **changes: object) -> list[ForeignRun]:
    base = ForeignRun(
        tool="vllm bench serve", source="a.json", load="2/s", model="m", requests=100, completed=100, failed=0,
        input_tokens=5000, output_tokens=10_000, prompts="p", prompts_by="lengths", figures={},
    )  # fmt: skip
    return [
        dataclasses.replace(
            base, **{"figures": {METRIC: value, "ttft_s": 1 / value}, "started_unix_s": start_s + i * step_s, **changes}
        )
        for i, value in enumerate(values)
    ]


def noisy(level: float, count: int = 6, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level * (1 + draw.gauss(0, 0.004)) for _ in range(count)]


def test_runs_in_turns_are_judged() -> None:
    found = compare(runs(noisy(100)), runs(noisy(110, seed=2), start_s=100.0), metric=METRIC)
    assert found.outcome == "better"
    assert found.order == "ABABABABABAB"
    assert found.ratio is not None
    assert found.ratio.low < 1.1 < found.ratio.high
    assert len(found.pairs) == 5, "one arm always came first, so each run of the other is set between two neighbours"
    assert any("always came first" in note for note in found.notes)


def test_runs_in_changing_order_are_judged_pair_by_pair() -> None:
    found = compare(runs(noisy(100)), runs(noisy(110, seed=2)), metric=METRIC, order="ABBAABBAABBA")
    assert found.outcome == "better"
    assert len(found.pairs) == 6


def test_less_is_better_for_a_latency() -> None:
    found = compare(runs(noisy(100)), runs(noisy(110, seed=2), start_s=100.0), metric="ttft_s")
    assert found.outcome == "better"


def test_a_loss_and_no_difference_are_told_apart() -> None:
    assert compare(runs(noisy(100)), runs(noisy(90, seed=2), start_s=100.0), metric=METRIC).outcome == "worse"
    same = compare(runs(noisy(100, 12)), runs(noisy(100, 12, seed=2), start_s=100.0), metric=METRIC)
    assert same.outcome in ("no difference that matters", "inconclusive")
    few = compare(runs([100, 101, 99]), runs([101, 100, 102]), metric=METRIC, order="ABBAAB")
    assert few.outcome == "inconclusive"
    assert (
        compare(runs([100, 101, 99]), runs([101, 100, 102], start_s=100.0), metric=METRIC).outcome == "not comparable"
    )


def change(**fields: object) -> Callable[[], tuple[list[ForeignRun], list[ForeignRun]]]:
    return lambda: (runs(noisy(100)), runs(noisy(110), start_s=100.0, **fields))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: (runs(noisy(100)), runs(noisy(110), start_s=5000.0)), "not taken in turns (AAAAAABBBBBB)"),
        (change(started_unix_s=None), "do not tell when the runs were made"),
        (change(prompts="q"), "different prompts, by lengths"),
        (change(prompts=None, input_tokens=6000), "different prompts: input tokens"),
        (change(prompts=None, input_tokens=None), "do not tell which prompts"),
        (change(output_tokens=None), "no output token count"),
        (change(output_tokens=8000), "answers of different length: 100.0 and 80.0"),
        (change(failed=3), "3 requests failed"),
        (change(failed=None), "does not tell how many requests failed"),
        (change(load="4/s"), "different loads: 2/s; 4/s"),
        (change(requests=200), "different numbers of requests"),
        (change(model="n"), "different models: m, n"),
        (change(tool="aiperf"), "two tools"),
        (change(refused="client delay"), "is invalid: client delay"),
        (change(figures={"other": 1.0}), "no output_tok_per_s in a.json"),
        (lambda: (runs([100.0]), runs([110.0], start_s=100.0)), "a single run shows nothing"),
        (lambda: (runs([100.0] * 4), runs([110.0] * 3, start_s=100.0)), "do not make pairs"),
    ],
)
def test_what_cannot_be_compared_is_not_and_the_reason_is_said(
    make: Callable[[], tuple[list[ForeignRun], list[ForeignRun]]], reason: str
) -> None:
    found = compare(*make(), metric=METRIC)
    assert found.outcome == "not comparable"
    assert found.ratio is None
    assert any(reason in each for each in found.reasons), found.reasons


def test_the_user_can_say_the_order_of_runs_that_carry_no_times() -> None:
    a = runs(noisy(100), started_unix_s=None)
    b = runs(noisy(110, seed=2), started_unix_s=None)
    assert compare(a, b, metric=METRIC, order="ABBAABBAABBA").outcome == "better"
    assert compare(a, b, metric=METRIC, order="AABB").outcome == "not comparable"
    assert "not taken in turns" in compare(a, b, metric=METRIC, order="AAABBBAAABBB").reasons[0]


def test_a_drift_that_fools_sequential_runs_does_not_pass() -> None:
    # Twelve runs of one configuration on a machine that slows down.
    drifting = [100 * (1 - 0.01 * index) for index in range(12)]
    sequential = compare(
        runs(drifting[:6], step_s=100.0), runs(drifting[6:], start_s=600.0, step_s=100.0), metric=METRIC
    )
    assert sequential.outcome == "not comparable"
    a, b = drifting[0::2], drifting[1::2]
    in_turns = compare(runs(a), runs(b, start_s=100.0), metric=METRIC)
    assert in_turns.outcome in ("no difference that matters", "inconclusive")
