"""What a tool costs, and how many streams it can follow on one core.

Cost: processor seconds per 1,000 streamed tokens, as the slope between a short and a long run, so that starting up is
left out. Streams: 50 tokens per second each, the server on one core, the tool on another; the highest number at which
the tool's p99 of the time to first token is at most 5 ms above the server's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probes.load.mock import truth
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.mock.truth import Served
from probes.load.summary import nearest_rank
from scripts.bench_load.cases import Case, ttft
from scripts.bench_load.tools import Reading, Setting, Tool, run

GAP_S = 0.02
ADDED_S = 0.005
COST_USERS, COST_TOKENS = 32, 100
COST_SHORT, COST_LONG = 96, 480
STREAM_TOKENS = 150
FEWEST = 700
STEPS = (50, 100, 150, 200, 300, 400, 600, 800, 1000, 1200, 1500, 2000, 2500)

Narrate = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The highest number that held, and the p99 added there and at the first that did not."""

    held: int
    added_s: float
    next_added_s: float | None
    ended: str


def cpu_per_1000(tool: Tool, mock: MockProcess, setting: Setting) -> float | str:
    """Processor seconds per 1,000 tokens, or why there is no such figure."""
    spent: list[tuple[float, int]] = []
    for requests in (COST_SHORT, COST_LONG):
        script = Script(first_token_s=0.1, gap_s=GAP_S, chunks=(1,) * COST_TOKENS, role_chunk=False, keep_bodies=False)
        mock.play(script)
        case = Case(name="cost", script=script, metric="ttft_s", true=ttft, users=COST_USERS, requests=requests,
                    asked_tokens=COST_TOKENS)  # fmt: skip
        reading = run(tool, case, setting)
        if reading.trouble:
            return reading.trouble
        spent.append((reading.cpu_s, truth.output_tokens(mock.truth())))
    (cpu_a, tokens_a), (cpu_b, tokens_b) = spent
    return 1000 * (cpu_b - cpu_a) / (tokens_b - tokens_a)


def most_streams(tool: Tool, mock: MockProcess, setting: Setting, say: Narrate) -> Streams | str:
    """The highest number of concurrent streams, or why there is no such figure."""
    best = Streams(held=0, added_s=0.0, next_added_s=None, ended="")
    for streams in STEPS:
        found = _added_s(tool, mock, setting, streams)
        if isinstance(found, str):
            return found if best.held == 0 else _ended(best, None, f"{streams} streams: {found}")
        say(f"    {tool.label}: {streams} streams, p99 TTFT + {1e3 * found:.1f} ms")
        if found > ADDED_S:
            return _ended(best, found, "")
        best = Streams(held=streams, added_s=found, next_added_s=None, ended="the highest number tried")
    return best


def _ended(best: Streams, added_s: float | None, why: str) -> Streams:
    return Streams(held=best.held, added_s=best.added_s, next_added_s=added_s, ended=why)


def _added_s(tool: Tool, mock: MockProcess, setting: Setting, streams: int) -> float | str:
    length_s = 0.1 + GAP_S * (STREAM_TOKENS - 1)
    script = Script(first_token_s=0.1, gap_s=GAP_S, chunks=(1,) * STREAM_TOKENS, role_chunk=False, keep_bodies=False)
    requests = max(FEWEST, 2 * streams)
    case = Case(name="streams", script=script, metric="ttft_p99_s", true=_p99, users=None,
                rate_per_s=round(streams / length_s, 3), requests=requests, asked_tokens=STREAM_TOKENS)  # fmt: skip
    mock.play(script)
    reading: Reading = run(tool, case, setting)
    value = reading.figures.get("ttft_p99_s")
    if value is None:
        return reading.trouble or "no p99"
    rows = mock.truth()
    if len([row for row in rows if row.complete]) < math.floor(0.99 * requests):
        return f"{len(rows)} of {requests} requests arrived"
    return value - _p99(rows)


def _p99(rows: Sequence[Served]) -> float:
    return nearest_rank(sorted(truth.ttft_s(row) for row in rows if row.complete), 99)
