"""Sends one window of requests and records what came back, to the moment.

One process, one thread, one loop over raw sockets: each read is stamped as it returns, and answers are parsed only when
nothing waits. Covered: closed loop and planned arrivals on an absolute schedule, warm-up by count and time, connections
opened before the window, no cap on connections, time-outs, dropped connections, HTTP errors, early stop once the
window can no longer be valid, several processes. Not covered: retries (a retried request hides a failure), HTTP/2.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from probes.load.arrivals import Closed, mean_rate_per_s
from probes.load.batch import Batch, Outgoing, Rules
from probes.load.body import get, measured_body, post, warmup_bodies
from probes.load.counters import moved, read_counters
from probes.load.digest import OnRecord
from probes.load.files import room_for_sockets
from probes.load.heartbeat import Heartbeat, summary
from probes.load.schedule import planned_times_s
from probes.load.types import LoadRequest, LoopLag, RequestRecord, Window
from probes.load.wire.dial import Connect, find_target
from probes.load.wire.loop import Loop
from probes.load.wire.pool import Pool, open_ahead

OPEN_AT_MOST = 256
OPEN_TIMEOUT_S = 2.0
SPARE_SHARE = 0.25
SILENT = LoopLag(beats=0, mean_s=0.0, p99_s=0.0, max_s=0.0)


def measure(
    request: LoadRequest,
    *,
    allowed_failures: int = 0,
    on_record: OnRecord | None = None,
    deadline_s: float | None = None,
    connect: Connect | None = None,
) -> Window:
    """Warm up, then run the measured window. `on_record` hears of each measured request once its answer was read.

    A failed warm-up ends the window before it begins. After more than `allowed_failures` failures nothing new is
    sent. Everything may take `deadline_s` seconds; past it TimeoutError is raised. KeyboardInterrupt propagates, after
    `on_record` heard of every request that had ended. All connections are closed in any case.
    """
    if request.processes > 1:
        from probes.load.processes import measure_together

        return measure_together(request, allowed_failures=allowed_failures, on_record=on_record, deadline_s=deadline_s)
    began_s = time.perf_counter()
    with Client(request, connect, deadline_s) as client:
        warmup = client.warm_up()
        if not all(record.ok for record in warmup):
            return Window(records=(), warmup=warmup, lag=SILENT, wall_s=time.perf_counter() - began_s)
        before = read_counters(client.loop, client.pool, request)
        client.open()
        window = client.window(allowed_failures=allowed_failures, on_record=on_record)
        after = read_counters(client.loop, client.pool, request)
    return dataclasses.replace(
        window, warmup=warmup, wall_s=time.perf_counter() - began_s, counters=moved(before, after)
    )


def counters_of(request: LoadRequest) -> dict[str, float]:
    """The server's counters, read on a connection of its own."""
    with Client(request) as client:
        return read_counters(client.loop, client.pool, request)


class Client:
    """The steps of one window in one process. Of several processes, each does its own share: its `rank` of them."""

    def __init__(
        self, request: LoadRequest, connect: Connect | None = None, deadline_s: float | None = None, rank: int = 0
    ) -> None:
        self._request = request
        self._rank = rank
        self._users = len(self._share(request.concurrency)) if request.concurrency is not None else None
        now_s = time.perf_counter()
        self._limit_s = now_s + min(request.time_limit_s, math.inf if deadline_s is None else deadline_s)
        self._deadline_s = math.inf if deadline_s is None else now_s + deadline_s
        self._room = room_for_sockets(self._width() + 64)
        target = find_target(request.base_url, via=request.via, ca_file=request.ca_file, connect=connect)
        self.loop = Loop()
        self.pool = Pool(self.loop, target)

    def __enter__(self) -> Client:
        self._room.__enter__()
        self.pool.tend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.close()
        self.loop.close()
        self._room.__exit__(kind, error, trace)

    def warm_up(self) -> tuple[RequestRecord, ...]:
        """Send warm-up requests, as many at once as will be measured, so that the same batch shapes get warm."""
        wanted = self._share(self._request.warmup_requests)
        if not wanted:
            return ()
        batch = Batch(self.loop, self.pool, dataclasses.replace(self._rules(0), duration_s=None))
        until_s = batch.zero_s + self._request.warmup_s

        def source() -> Iterator[Outgoing]:
            for number, body in enumerate(warmup_bodies(self._request)):
                if number >= self._request.warmup_requests and self.loop.clock() >= until_s:
                    return
                if number % self._request.processes == self._rank:
                    yield Outgoing(number, post(self._request, body))

        batch.closed(self._users or len(wanted), source())
        self._check_deadline()
        return tuple(batch.records)

    def open(self) -> None:
        """Open the window's connections."""
        self.pool.floor = self._users or 0
        open_ahead(self.loop, self.pool, self._width(), get(self._request, "/health"), OPEN_TIMEOUT_S)
        self._check_deadline()
        self.pool.spare_share = None if self._users else SPARE_SHARE

    def window(
        self, *, zero_s: float | None = None, allowed_failures: int = 0, on_record: OnRecord | None = None
    ) -> Window:
        """Measure this process's requests. `zero_s`: the moment at which the window begins, now if not given."""
        request = self._request
        bodies = [
            Outgoing(number, post(request, measured_body(request, number))) for number in self._share(request.requests)
        ]
        plan = _plan(request, bodies)
        batch = Batch(self.loop, self.pool, self._rules(allowed_failures), zero_s, on_record)
        heart = Heartbeat(self.loop)
        opened, cpu_s = self.pool.opened, time.process_time()
        heart.start()
        try:
            with _no_collections():
                if plan is None:
                    batch.closed(self._users or 1, iter(bodies))
                else:
                    batch.planned(plan)
        finally:
            heart.stop()
        self._check_deadline()
        return Window(
            records=tuple(batch.records),
            warmup=(),
            lag=summary(heart.lags_s),
            wall_s=self.loop.clock() - batch.zero_s,
            cut=batch.cut,
            opened=self.pool.opened - opened,
            cpu_s=time.process_time() - cpu_s,
            zero_s=batch.zero_s,
        )

    def _share(self, count: int) -> range:
        return range(self._rank, count, self._request.processes)

    def _width(self) -> int:
        """Connections to open ahead: one for each user, or two seconds' worth of arrivals."""
        if self._users is not None:
            return self._users
        request = self._request
        rate = mean_rate_per_s(request.arrivals)
        wanted = min(request.requests, OPEN_AT_MOST, math.ceil(2 * rate) + 8 if rate is not None else OPEN_AT_MOST)
        return math.ceil(wanted / request.processes)

    def _rules(self, allowed_failures: int) -> Rules:
        request = self._request
        return Rules(
            streamed=request.stream,
            timeout_s=request.request_timeout_s,
            limit_s=self._limit_s,
            duration_s=request.duration_s,
            allowed_failures=allowed_failures,
        )

    def _check_deadline(self) -> None:
        if time.perf_counter() >= self._deadline_s:
            raise TimeoutError("the deadline passed in the middle of a window")


def _plan(request: LoadRequest, bodies: Sequence[Outgoing]) -> list[tuple[float, Outgoing]] | None:
    """Each request with its planned time; None in a closed loop."""
    if isinstance(request.arrivals, Closed):
        return None
    times_s = planned_times_s(request.arrivals, request.requests, request.seed)
    return [(times_s[outgoing.number], outgoing) for outgoing in bodies]


@contextmanager
def _no_collections() -> Iterator[None]:
    """A collection of garbage is a pause of the client."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
