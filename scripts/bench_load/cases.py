"""The cases: what the server does, what is asked for, and what is true, computed from what it really wrote."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probes.load.mock import truth
from probes.load.mock.script import Script
from probes.load.mock.truth import Served

True_ = Callable[[Sequence[Served]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`metric`: our name of the figure. Exactly one of `users` and `rate_per_s`; a rate is evenly spaced."""

    name: str
    script: Script
    metric: str
    true: True_
    users: int | None = 4
    rate_per_s: float | None = None
    requests: int = 24
    asked_tokens: int = 20
    per_chunk_usage: bool = False
    may_fail: bool = False
    twice: bool = False


def _good(rows: Sequence[Served]) -> list[Served]:
    return [row for row in rows if row.complete]


def ttft(rows: Sequence[Served]) -> float:
    """Mean time to first token."""
    return statistics.fmean(truth.ttft_s(row) for row in _good(rows))


def first_answer(rows: Sequence[Served]) -> float:
    """Mean time to the first token behind the reasoning."""
    return statistics.fmean(truth.first_answer_s(row) for row in _good(rows))


def tpot(rows: Sequence[Served]) -> float:
    """Mean time per output token."""
    return statistics.fmean(value for row in _good(rows) if (value := truth.tpot_s(row)) is not None)


def e2e(rows: Sequence[Served]) -> float:
    """Mean latency to the last content."""
    return statistics.fmean(truth.e2e_s(row) for row in _good(rows))


def tokens_per_s(rows: Sequence[Served]) -> float:
    """Output tokens of complete answers per second."""
    return truth.output_tokens(rows) / truth.window_s(rows)


def requests_per_s(rows: Sequence[Served]) -> float:
    """Complete answers per second."""
    return len(_good(rows)) / truth.window_s(rows)


def completed(rows: Sequence[Served]) -> float:
    """Complete answers."""
    return float(len(_good(rows)))


def peak(rows: Sequence[Served]) -> float:
    """Most requests served at once."""
    return float(truth.peak_in_flight(rows))


def from_schedule(rate_per_s: float) -> True_:
    """Mean latency from the moment at which an evenly spaced request was due."""

    def mean(rows: Sequence[Served]) -> float:
        zero_s = min(row.received_s for row in rows)
        return statistics.fmean(row.chunk_times_s[-1] - zero_s - n / rate_per_s for n, row in enumerate(_good(rows)))

    return mean


PLAIN = Script(first_token_s=0.1, gap_s=0.02, chunks=(1,) * 20, keep_bodies=False)


def _script(**changes: object) -> Script:
    from dataclasses import replace

    return replace(PLAIN, **changes)  # type: ignore[arg-type]


CASES: tuple[Case, ...] = (
    Case(name="first token (empty role chunk first)", script=PLAIN, metric="ttft_s", true=ttft),
    Case(name="time per token", script=PLAIN, metric="tpot_s", true=tpot),
    Case(name="output tokens per second", script=PLAIN, metric="output_tok_per_s", true=tokens_per_s),
    Case(name="peak in flight", script=PLAIN, metric="peak_in_flight", true=peak),
    Case(
        name="time per token, 4 tokens in a chunk",
        script=_script(chunks=(4,) * 12, gap_s=0.08, usage="every chunk"),
        metric="tpot_s", true=tpot, asked_tokens=48, per_chunk_usage=True,
    ),
    Case(
        name="time per token, 16 in the first chunk",
        script=_script(chunks=(16, *(1,) * 16), usage="every chunk"),
        metric="tpot_s", true=tpot, asked_tokens=32, per_chunk_usage=True,
    ),
    Case(name="end to end, usage 0.5 s late", script=_script(usage_delay_s=0.5), metric="e2e_s", true=e2e),
    Case(
        name="first token, reasoning first", script=_script(reasoning_chunks=10, role_chunk=False), metric="ttft_s",
        true=ttft,
    ),
    Case(
        name="first answer token, reasoning first", script=_script(reasoning_chunks=10), metric="first_answer_s",
        true=first_answer,
    ),
    Case(
        name="first token, answer is tool calls", script=_script(tool_chunks=20, finish_reason="tool_calls"),
        metric="ttft_s", true=ttft,
    ),
    Case(
        name="requests per second, every other one 503", script=_script(fail_every=2), metric="requests_per_s",
        true=requests_per_s, may_fail=True,
    ),
    Case(
        name="tokens per second, answers end early", script=PLAIN, metric="output_tok_per_s", true=tokens_per_s,
        asked_tokens=64,
    ),
    Case(
        name="latency from schedule, one slot for 2/s", script=_script(slots=1, chunks=(1,) * 30),
        metric="e2e_scheduled_s", true=from_schedule(2.0), users=None, rate_per_s=2.0, asked_tokens=30,
    ),
    Case(
        name="first token, connection closed each time", script=_script(keep_alive=False, role_chunk=False),
        metric="ttft_s", true=ttft,
    ),
    Case(
        name="time per token, a chunk of 4 MB", script=_script(huge_bytes=4_000_000), metric="tpot_s", true=tpot,
        users=1, requests=12,
    ),
    Case(
        name="answers read: CRLF, several data lines", script=_script(crlf=True, multiline=True), metric="completed",
        true=completed,
    ),
    Case(
        name="answers read: comments, split characters", script=_script(comments=True, split_utf8=True),
        metric="completed", true=completed,
    ),
    Case(
        name="answers counted, every one reset mid-stream", script=_script(fault="reset"), metric="completed",
        true=completed, may_fail=True,
    ),
    Case(
        name="first token, second run on a warm cache",
        script=_script(prefix_cache=True, prefill_s_per_token=0.002, role_chunk=False),
        metric="ttft_s", true=ttft, twice=True,
    ),
)  # fmt: skip
