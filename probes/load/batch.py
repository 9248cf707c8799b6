"""Sends one batch of requests against one clock and hears them out.

Covered: a closed loop, an absolute plan, warm-up by count and time, time-outs per request, an end after too many
failures, after a duration or at a time limit. Not covered: pausing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from probes.load.digest import Digest, OnRecord, Unfolding
from probes.load.exchange import Exchange
from probes.load.types import RequestRecord
from probes.load.wire.connection import Connection
from probes.load.wire.loop import Loop
from probes.load.wire.pool import Pool

GRACE_S = 1.0
"""After [DONE] the answer is complete; only the end of the HTTP body is still awaited, to keep the connection."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request, ready to be written."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a batch is run. `limit_s` is a moment of the loop's clock; `duration_s` counts from the batch's zero."""

    streamed: bool
    timeout_s: float
    limit_s: float
    duration_s: float | None = None
    allowed_failures: int = 0


class Batch:
    """Use once: `closed` or `planned`, which return when every request that was sent has ended."""

    def __init__(
        self, loop: Loop, pool: Pool, rules: Rules, zero_s: float | None = None, on_record: OnRecord | None = None
    ) -> None:
        self._loop, self._pool, self._rules = loop, pool, rules
        self.zero_s = loop.clock() if zero_s is None else zero_s
        self._on_record = on_record
        self._digest = Digest(self.zero_s, rules.streamed, self._recorded)
        self._in_flight: dict[int, Exchange] = {}
        self._data: dict[int, bytes] = {}
        self._deadlines: deque[Exchange] = deque()
        self._source: Iterator[Outgoing] | None = None
        self._more = True
        self._failures = 0
        self._counted: set[int] = set()
        self.records: list[RequestRecord] = []
        self.cut: str | None = None

    def closed(self, concurrency: int, source: Iterator[Outgoing]) -> None:
        """Users pull from one source, so every arm does the same work in the same order."""
        self._source = source
        self._loop.at(self.zero_s, lambda: self._first(concurrency))
        self._run()

    def planned(self, plan: Sequence[tuple[float, Outgoing]]) -> None:
        """Send each request at its own absolute time, however late the others are. The plan is in order of time."""
        self._plan = deque(plan)
        self._follow()
        self._run()

    def _run(self) -> None:
        limit = self._loop.at(self._rules.limit_s, self._cut)
        try:
            self._loop.run(self._digest.step)
        finally:
            limit.cancel()
            self._digest.drain()
        self.records.sort(key=lambda record: record.id)

    def _first(self, concurrency: int) -> None:
        for _ in range(concurrency):
            self._next()
        self._finish_if_over()

    def _next(self) -> None:
        """One user is free: its next request, if there is one."""
        now_s = self._loop.clock()
        if self._stops_sending(now_s):
            return
        assert self._source is not None
        outgoing = next(self._source, None)
        if outgoing is None:
            self._more = False
        else:
            self._send(outgoing, now_s)

    def _follow(self) -> None:
        """Send what is due and wait for what is next."""
        while self._plan:
            due_s, outgoing = self._plan[0]
            moment_s = self.zero_s + due_s
            if self._stops_sending(moment_s):
                break
            if moment_s > self._loop.clock():
                self._loop.at(moment_s, self._follow)
                return
            self._plan.popleft()
            self._send(outgoing, moment_s)
        self._more = False
        self._finish_if_over()

    def _stops_sending(self, moment_s: float) -> bool:
        duration_s = self._rules.duration_s
        late = duration_s is not None and moment_s - self.zero_s >= duration_s
        if late or self._failures > self._rules.allowed_failures or self.cut is not None:
            self._more = False
        return not self._more

    def _send(self, outgoing: Outgoing, scheduled_s: float) -> None:
        asked_s = self._loop.clock()
        exchange = Exchange(outgoing.number, scheduled_s, asked_s, self._ended, self._said_done)
        self._in_flight[outgoing.number] = exchange
        self._deadlines.append(exchange)
        if len(self._deadlines) == 1:
            self._loop.at(asked_s + self._rules.timeout_s, self._expire)

        def write(connection: Connection) -> None:
            if exchange.ended:  # it waited too long for this connection
                self._pool.give_back(connection, reusable=True)
                return
            exchange.connection = connection
            exchange.sent_s = self._loop.clock()
            connection.send(outgoing.data, exchange)

        def refused(reason: str) -> None:
            exchange.finish(self._loop.clock(), ("connection failed", reason))

        self._pool.take(write, refused)

    def _ended(self, exchange: Exchange) -> None:
        del self._in_flight[exchange.number]
        if exchange.connection is not None:
            self._pool.give_back(exchange.connection, exchange.reusable)
            exchange.connection = None
        if not exchange.answered and self._rules_out_answer(exchange):
            self._counted.add(exchange.number)
            self._failures += 1
        self._digest.add(exchange)
        if self._source is not None:
            self._next()
        self._finish_if_over()

    def _rules_out_answer(self, exchange: Exchange) -> bool:
        """It failed for certain: an answer that was complete before the connection broke did not."""
        return exchange.trouble is None or not exchange.said_done

    def _recorded(self, record: RequestRecord) -> None:
        if not record.ok and record.id not in self._counted:
            self._failures += 1
        self.records.append(record)
        if self._on_record is not None:
            self._on_record(record)

    def _said_done(self, exchange: Exchange) -> None:
        self._loop.at(self._loop.clock() + GRACE_S, lambda: self._end_of_grace(exchange))

    def _end_of_grace(self, exchange: Exchange) -> None:
        if not exchange.ended and Unfolding(exchange, self.zero_s, self._rules.streamed).done_seen():
            exchange.finish(self._loop.clock(), None)

    def _expire(self) -> None:
        """End what has waited too long. All requests wait equally long, so the oldest is first."""
        now_s = self._loop.clock()
        while self._deadlines:
            oldest = self._deadlines[0]
            due_s = oldest.asked_s + self._rules.timeout_s
            if not oldest.ended and due_s > now_s:
                self._loop.at(due_s, self._expire)
                return
            self._deadlines.popleft()
            if not oldest.ended:
                oldest.finish(now_s, (f"no complete answer within {self._rules.timeout_s:g} s", ""))

    def _cut(self) -> None:
        self.cut = "the time limit was reached"
        self._more = False
        now_s = self._loop.clock()
        for exchange in tuple(self._in_flight.values()):
            exchange.finish(now_s, ("cut off at the time limit", ""))
        self._loop.stop()

    def _finish_if_over(self) -> None:
        if not self._in_flight and not self._more:
            self._loop.stop()
