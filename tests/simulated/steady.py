"""Time made exact under the real command line, so that a killed and resumed run can be compared figure by figure.

Replaced are four things only. The clocks, UTC and monotonic, count the events of the ledger, one second each. The load
window is not waited for: the running engine is asked for its speed, and the window's records are computed from that
and from the window's seed; so no neighbour can disturb it either. The report's page is not drawn. Engines, sandbox,
ledger, kills and resumes are real.
"""

from __future__ import annotations

import functools
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from infra_agent.agent import start
from infra_agent.harness import disturbance, measuring
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.publish.report import html
from probes.load import metrics, probe
from probes.load.types import LoadRequest, LoadResult, LoopLag, RequestRecord, Window
from probes.net.http import sync_client

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NOISE = 0.004
"""Standard deviation of a window's log speed: below what three blocks need to settle a factor of two."""


class EventClock:
    """One second per event of the run's ledger, the sessions before this one included."""

    def __init__(self) -> None:
        self.events = 0

    def utc(self) -> datetime:
        """Read once for each event."""
        self.events += 1
        return EPOCH + timedelta(seconds=self.events)

    def seconds(self) -> float:
        """Read as often as one likes."""
        return float(self.events)


def use_steady_time() -> None:
    """From now on this process is such a command line."""
    clock, begin, resume = EventClock(), start.begin, start.resume

    def resume_steadily(run_dir: Path, *rest: Any, **words: Any) -> Any:
        clock.events = (run_dir / LEDGER_FILE).read_bytes().count(b"\n")
        return resume(run_dir, *rest, clock=clock.seconds, **words)

    start.session_clock = lambda: clock.utc
    start.begin = functools.partial(begin, clock=clock.seconds)
    start.resume = resume_steadily
    use_exact_windows()
    disturbance.what_disturbed = lambda _signals, _earlier: ""
    measuring.Watch = _Alone
    html.render = lambda _report: "<!doctype html>"


class _Alone:
    """A machine on which nobody else works."""

    def __init__(self, own_pids: object = ()) -> None:
        pass

    def seen(self, own_pids: object = ()) -> disturbance.Disturbance:
        return disturbance.Disturbance(cores=0.0)


def use_exact_windows() -> None:
    """From now on no window is waited for."""
    probe.run = exact_window


def exact_window(request: LoadRequest, **words: Any) -> tuple[Any, LoadResult]:
    """`probes.load.probe.run` without the waiting."""
    speed = _speed(request)
    luck = random.Random(f"{request.seed} {speed}").gauss(0.0, NOISE)
    records = _records(request, speed["gap_s"] * 2.718281828459045**luck, speed["side_by_side"])
    lag = LoopLag(beats=100, mean_s=0.0, p99_s=0.0, max_s=0.0)
    window = Window(records=records, warmup=(), lag=lag, wall_s=1.0)
    figures = metrics.compute(records, request)
    result = LoadResult(request=request, window=window, window_s=figures.window_s, metrics=figures)
    return probe.observe(result, where=words["where"], against=words["against"]), result


def _speed(request: LoadRequest) -> Any:
    """What the running engine says of itself; behind walls it is reached the way the probe reaches it."""
    url = f"{request.base_url}/speed"
    with sync_client(request.via, verify=False) as client:
        return client.get(url).json()


def _records(request: LoadRequest, gap_s: float, side_by_side: bool) -> tuple[RequestRecord, ...]:
    """A closed loop: each user sends the next request when the last was answered."""
    free_s = [0.0] * (request.concurrency or 1)
    server_s = 0.0
    records = []
    for number in range(request.requests):
        user = free_s.index(min(free_s))
        sent_s = free_s[user]
        begin_s = sent_s if side_by_side else max(sent_s, server_s)
        chunks = tuple(begin_s + gap_s * (i + 1) for i in range(request.max_tokens))
        server_s = free_s[user] = chunks[-1] + gap_s / 100
        records.append(_record(request, number, sent_s, chunks, server_s))
    return tuple(records)


def _record(request: LoadRequest, number: int, sent_s: float, chunks: tuple[float, ...], end_s: float) -> RequestRecord:
    return RequestRecord(
        id=number, scheduled_s=sent_s, sent_s=sent_s, end_s=end_s, first_token_s=chunks[0], first_answer_s=chunks[0],
        last_token_s=chunks[-1], chunk_times_s=chunks, output_tokens=request.max_tokens, prompt_tokens=10,
        finish_reason="length", model=request.expected_model or request.model,
        text=f"answer to {number % len(request.prompts)}",
    )  # fmt: skip
