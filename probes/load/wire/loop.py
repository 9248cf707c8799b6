"""One thread, many sockets, timers: the loop that the load client and the mock server both run on.

A timer never waits for more than one read: after each read the clock is compared with the next due time. Between
events the loop offers idle moments, in which work that can wait (parsing answers) is done in slices.
Covered: readiness, timers with cancellation, idle work, lag of the loop itself. Not covered: threads, subprocesses.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from probes.load.wire.poller import Poller, best_poller

OnReady = Callable[[int], None]
LONGEST_WAIT_S = 1.0
IDLE_NEEDS_S = 0.0005
"""No idle work when a timer is due sooner than this."""


class Timer:
    """A call at a moment; cancelled timers are dropped when their moment comes."""

    __slots__ = ("call", "due_s")

    def __init__(self, due_s: float, call: Callable[[], None]) -> None:
        self.due_s = due_s
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """The call will not be made."""
        self.call = None


class Loop:
    """Runs callbacks until told to stop. Moments are seconds of `clock`."""

    def __init__(self, poller: Poller | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._poller = poller or best_poller()
        self._handlers: dict[int, OnReady] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = 0
        self._next_s = math.inf
        self._stopped = False
        self.longest_turn_s = 0.0
        """Longest time in which ready bytes may have waited, since it was last reset."""

    def watch(self, fd: int, mask: int, on_ready: OnReady) -> None:
        """Call `on_ready(mask)` whenever the descriptor is ready."""
        self._handlers[fd] = on_ready
        self._poller.watch(fd, mask)

    def change(self, fd: int, mask: int) -> None:
        """Watch a known descriptor for something else."""
        self._poller.change(fd, mask)

    def forget(self, fd: int) -> None:
        """Stop watching; to be called before the descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._poller.forget(fd)

    def at(self, due_s: float, call: Callable[[], None]) -> Timer:
        """Make a call at a moment."""
        timer = Timer(due_s, call)
        self._order += 1
        heapq.heappush(self._timers, (due_s, self._order, timer))
        self._next_s = self._timers[0][0]
        return timer

    def stop(self) -> None:
        """Return from `run` after the current callback."""
        self._stopped = True

    def run(self, idle: Callable[[], bool] | None = None) -> None:
        """Run until `stop`. `idle` does a slice of work that can wait and says whether there is more."""
        self._stopped = False
        more = idle is not None
        clock, wait, handlers = self.clock, self._poller.wait, self._handlers
        while not self._stopped:
            left_s = self._next_s - clock()
            hurry = left_s <= 0 or (more and left_s > IDLE_NEEDS_S)
            ready = wait(0.0 if hurry else min(left_s, LONGEST_WAIT_S))
            began_s = clock()
            for fd, mask in ready:
                handler = handlers.get(fd)
                if handler is not None:
                    handler(mask)
                if clock() >= self._next_s:
                    self._fire()
            if clock() >= self._next_s:
                self._fire()
            elif idle is not None and more and not ready and self._next_s - began_s > IDLE_NEEDS_S:
                more = idle()
                self._turned(began_s)
                continue
            more = idle is not None
            self._turned(began_s)

    def _turned(self, began_s: float) -> None:
        self.longest_turn_s = max(self.longest_turn_s, self.clock() - began_s)

    def close(self) -> None:
        """Release what the loop itself holds."""
        self._handlers.clear()
        self._timers.clear()
        self._poller.close()

    def _fire(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self.clock():
            call = heapq.heappop(timers)[2].call
            if call is not None:
                call()
        self._next_s = timers[0][0] if timers else math.inf


@contextmanager
def open_loop() -> Iterator[Loop]:
    """A loop that is closed at the end."""
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()
