"""Sends one window of requests and records what came back, to the moment.

Covered: closed loop and Poisson arrivals on an absolute schedule, warm-up, connections opened before the window, no
cap on connections, time-outs, dropped connections, HTTP errors, early stop once the window can no longer be valid.
Not covered: retries (a retried request hides a failure), several client processes, HTTP/2.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import httpx

from probes.load.answer import AnswerBuilder
from probes.load.body import endpoint_url, measured_bodies, server_root, warmup_bodies
from probes.load.heartbeat import Heartbeat
from probes.load.schedule import poisson_times_s
from probes.load.sse import SseParser
from probes.load.types import Closed, LoadRequest, LoopLag, RequestRecord, Window
from probes.net.http import async_client

OnRecord = Callable[[RequestRecord], None]
# Below the 5 s after which common servers close an idle connection: a request must not meet that close half-way.
KEEPALIVE_S = 4.0
OPEN_AT_MOST = 256
OPEN_TIMEOUT_S = 2.0
# After [DONE] the answer is complete; only the end of the HTTP body is still awaited, to keep the connection.
GRACE_S = 1.0


async def measure(request: LoadRequest, *, allowed_failures: int = 0, on_record: OnRecord | None = None) -> Window:
    """Warm up, then run the measured window. `on_record` hears of each measured request as it ends.

    A failed warm-up ends the window before it begins. After more than `allowed_failures` failures nothing new is
    sent. Cancellation closes every connection and propagates.
    """
    began_s = time.perf_counter()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_S)
    headers = {"content-type": "application/json", "accept-encoding": "identity", **request.headers}
    async with async_client(request.via, limits=limits, timeout=None, headers=headers) as client:
        warmup = await _Run(client, request, warmup_bodies(request), 0).closed(_width(request))
        if any(not record.ok for record in warmup):
            silent = LoopLag(beats=0, mean_s=0.0, p99_s=0.0, max_s=0.0)
            return Window(records=(), warmup=warmup, lag=silent, wall_s=time.perf_counter() - began_s)
        await _open_connections(client, request)
        heart = Heartbeat()
        run = _Run(client, request, measured_bodies(request), allowed_failures, on_record)
        beating = asyncio.create_task(heart.beat())
        try:
            records = await run.by(request)
        finally:
            beating.cancel()
    return Window(records=records, warmup=warmup, lag=heart.lag(), wall_s=time.perf_counter() - began_s)


def _width(request: LoadRequest) -> int:
    """Warm-up requests in flight at once: as many as will be measured, so that the same batch shapes get warm."""
    return request.arrivals.concurrency if isinstance(request.arrivals, Closed) else request.warmup_requests


async def _open_connections(client: httpx.AsyncClient, request: LoadRequest) -> None:
    """Open the window's connections: all answers are held until the last has begun, so each needs its own."""
    width = request.concurrency or min(request.requests, OPEN_AT_MOST)
    opened = asyncio.Barrier(width)

    async def one() -> None:
        async with client.stream("GET", f"{server_root(request.base_url)}/health") as response:
            await opened.wait()
            await response.aread()

    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S), asyncio.TaskGroup() as group:
            for _ in range(width):
                group.create_task(one())
    except* (TimeoutError, httpx.HTTPError):
        pass  # The window opens what is missing; a server that cannot be reached fails there, with its reason.


@dataclass(slots=True)
class _Progress:
    failures: int = 0


class _Run:
    """One batch of requests against one clock."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        request: LoadRequest,
        bodies: Sequence[bytes],
        allowed_failures: int,
        on_record: OnRecord | None = None,
    ) -> None:
        self._client = client
        self._request = request
        self._url = endpoint_url(request)
        self._bodies = bodies
        self._allowed = allowed_failures
        self._on_record = on_record
        self._progress = _Progress()
        self._zero_s = time.perf_counter()

    async def by(self, request: LoadRequest) -> tuple[RequestRecord, ...]:
        """Run with the request's own arrivals."""
        if isinstance(request.arrivals, Closed):
            return await self.closed(request.arrivals.concurrency)
        return await self.planned(poisson_times_s(request.arrivals.rate_per_s, request.requests, request.seed))

    async def closed(self, concurrency: int) -> tuple[RequestRecord, ...]:
        """Workers pull from one list, so every arm does the same work in the same order."""
        records: list[RequestRecord] = []
        todo = iter(range(len(self._bodies)))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(self._bodies))):
                group.create_task(self._work(todo, records))
        return tuple(sorted(records, key=lambda record: record.id))

    async def planned(self, times_s: Sequence[float]) -> tuple[RequestRecord, ...]:
        """Send each request at its own absolute time, however late the others are."""
        records: list[RequestRecord] = []
        async with asyncio.TaskGroup() as group:
            for number, due_s in enumerate(times_s):
                group.create_task(self._at(number, due_s, records))
        return tuple(sorted(records, key=lambda record: record.id))

    def _now_s(self) -> float:
        return time.perf_counter() - self._zero_s

    @property
    def _hopeless(self) -> bool:
        return self._progress.failures > self._allowed

    async def _work(self, todo: Iterator[int], records: list[RequestRecord]) -> None:
        for number in todo:
            if self._hopeless:
                return
            records.append(await self._send(number, self._now_s()))

    async def _at(self, number: int, due_s: float, records: list[RequestRecord]) -> None:
        await asyncio.sleep(max(0.0, due_s - self._now_s()))
        if not self._hopeless:
            records.append(await self._send(number, due_s))

    async def _send(self, number: int, scheduled_s: float) -> RequestRecord:
        answer = AnswerBuilder(number, scheduled_s, self._now_s())
        limit_s = self._request.request_timeout_s
        try:
            async with asyncio.timeout(limit_s) as deadline:
                await self._exchange(number, answer, deadline)
        except TimeoutError:
            if not answer.done:
                answer.fail(f"no complete answer within {limit_s:g} s ({answer.chunks} chunks came)")
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            answer.fail(f"connection failed after {answer.chunks} chunks: {reason}")
        record = answer.record(self._now_s(), streamed=self._request.stream)
        self._progress.failures += not record.ok
        if self._on_record is not None:
            self._on_record(record)
        return record

    async def _exchange(self, number: int, answer: AnswerBuilder, deadline: asyncio.Timeout) -> None:
        async with self._client.stream("POST", self._url, content=self._bodies[number]) as response:
            if response.status_code != httpx.codes.OK:
                text = (await response.aread()).decode("utf-8", errors="replace")
                answer.fail(f"HTTP {response.status_code}: {' '.join(text.split())[:200]}")
            elif not self._request.stream:
                answer.whole((await response.aread()).decode("utf-8", errors="replace"))
            elif "event-stream" not in (kind := response.headers.get("content-type", "no content type")):
                answer.fail(f"asked for a stream, got {kind}")
            else:
                await self._read_stream(response, answer, deadline)

    async def _read_stream(self, response: httpx.Response, answer: AnswerBuilder, deadline: asyncio.Timeout) -> None:
        parser = SseParser()
        async for chunk in response.aiter_bytes():
            now_s = self._now_s()
            for event in parser.feed(chunk):
                answer.event(event, now_s)
            if answer.done:
                deadline.reschedule(asyncio.get_running_loop().time() + GRACE_S)
        now_s = self._now_s()
        for event in parser.close():
            answer.event(event, now_s)
