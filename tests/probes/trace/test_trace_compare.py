"""Two traces beside each other: the planted slower interval is named, and equal traces name nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.base import Verdict
from probes.trace.profile.run import profile_against
from probes.trace.profile.source import UnreadableTrace
from scripts.bench_trace.generate import KERNELS, Slower, write_trace

EVENTS = 12_000


def pair(tmp_path: Path, seed: int, slower: Slower | None) -> tuple[Path, Path, tuple[float, float] | None]:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    write_trace(a, EVENTS, seed=seed)
    return a, b, write_trace(b, EVENTS, seed=seed + 100, slower=slower)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", [KERNELS[0][1], KERNELS[2][1]])
def test_the_planted_interval_and_its_kernel_are_named(tmp_path: Path, seed: int, kernel: str) -> None:
    a, b, planted = pair(
        tmp_path, seed, Slower(kernel=kernel, factor=2.5, begin=0.3 + 0.1 * seed, end=0.4 + 0.1 * seed)
    )
    seen = profile_against(a, b)
    assert planted is not None
    assert seen.verdict is Verdict.FAIL
    assert seen.where.kernel == kernel
    assert seen.where.interval_s is not None
    low, high = seen.where.interval_s
    overlap = min(high, planted[1]) - max(low, planted[0])
    assert overlap > 0.85 * (planted[1] - planted[0])
    assert overlap > 0.85 * (high - low)


@pytest.mark.parametrize("seed", range(5))
def test_two_traces_of_equal_work_name_nothing(tmp_path: Path, seed: int) -> None:
    a, b, _ = pair(tmp_path, seed, None)
    seen = profile_against(a, b)
    assert seen.verdict is Verdict.PASS
    assert seen.signals["slower_interval"] is False


def test_a_trace_that_is_slower_everywhere_is_said_to_be_so(tmp_path: Path) -> None:
    a, b, _ = pair(tmp_path, 1, Slower(kernel=KERNELS[0][1], factor=2.0, begin=0.0, end=1.0))
    seen = profile_against(a, b)
    assert seen.verdict is Verdict.FAIL or "evenly" in seen.summary
    assert seen.detail["parts"][0]["name"] == KERNELS[0][1]


def test_other_work_is_inconclusive_and_the_first_divergence_is_told(tmp_path: Path) -> None:
    a, b, _ = pair(tmp_path, 1, None)
    text = b.read_text()
    for number, (_, kernel, _) in enumerate(KERNELS):
        text = text.replace(kernel, f"another_kernel_{number}")
    b.write_text(text)
    seen = profile_against(a, b)
    assert seen.verdict is Verdict.INCONCLUSIVE
    assert seen.detail["diverges_at"].startswith("event 0 ")
    assert "another_kernel_0" in seen.detail["diverges_at"]


def test_a_truncated_trace_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    a, b, planted = pair(tmp_path, 2, Slower(begin=0.2, end=0.3))
    raw = b.read_bytes()
    b.write_bytes(raw[: len(raw) * 8 // 10])
    seen = profile_against(a, b)
    assert planted is not None
    assert seen.verdict is Verdict.FAIL
    assert "goes on" in seen.detail["diverges_at"]


def test_a_profile_without_a_time_line_cannot_be_compared(tmp_path: Path) -> None:
    a, _, _ = pair(tmp_path, 1, None)
    stacks = tmp_path / "stacks.txt"
    stacks.write_text("main;work 12\n")
    with pytest.raises(UnreadableTrace, match="no time line"):
        profile_against(a, stacks)
