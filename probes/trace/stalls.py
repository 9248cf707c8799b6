"""Watches asyncio event loops from a thread of their own process: how late each turn is, and which frame blocked it.

A short callback is sent to the loop again and again; while it is not answered the loop's stack is looked at, so the
blocking line is seen while it blocks. When the watching thread itself was late, nobody could run Python: the GIL was
held by native code, or the machine gave the process no CPU; such a stall is marked, and its frame is what came after.
Covered: asyncio and uvloop loops, several in one process, loops started later. Not covered: trio; loops in children.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from probes.base import Cost, Observation, Quantity, Rung, Verdict, Where

BEAT_S = 0.02
STALL_S = 0.1
"""A turn of the loop longer than this is a stall: ten tokens of a stream at 100 tokens/s would be late together."""
MOST_STALLS = 1000
NAME = "trace.asyncio_stalls"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One blocked turn. `where`: innermost line outside the library; `inside`: the frame that it was in itself."""

    at_s: float
    length_s: float
    file: str
    line: int
    function: str
    inside: str
    thread: str
    watcher_late: bool


@dataclass(slots=True)
class StallLog:
    """All lags and stalls of a watched time. `beats`: answered callbacks."""

    lags_s: list[float] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    watched_s: float = 0.0


@dataclass(slots=True)
class _Loop:
    """One loop under watch: when its open beat was sent, and what was seen while it was not answered."""

    loop: asyncio.AbstractEventLoop
    thread: int
    sent_s: float | None = None
    answered_s: float | None = None
    seen: tuple[str, int, str, str] | None = None
    late: bool = False


class StallWatch:
    """Watches every loop of this process between `start` and `stop`."""

    def __init__(self, stall_s: float = STALL_S, beat_s: float = BEAT_S, clock: Clock = time.monotonic) -> None:
        self._stall_s, self._beat_s, self._clock = stall_s, beat_s, clock
        self._loops: dict[int, _Loop] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._began_s = clock()
        self._thread = threading.Thread(target=self._run, name="stall-watch", daemon=True)
        self.log = StallLog()

    def start(self) -> None:
        """Begin to watch the loops that were added, and those that will be."""
        self._began_s = self._clock()
        self._thread.start()

    def stop(self) -> StallLog:
        """End; stalls that have not ended count as long as they were."""
        self._stop.set()
        self._thread.join()
        now_s = self._clock()
        for watched in list(self._loops.values()):
            if watched.sent_s is not None and now_s - watched.sent_s >= self._stall_s:
                self._note(watched, now_s)
        self.log.watched_s = now_s - self._began_s
        return self.log

    def add(self, loop: asyncio.AbstractEventLoop, thread: int | None = None) -> None:
        """Watch a loop that runs in a thread (default: this one)."""
        with self._lock:
            self._loops[id(loop)] = _Loop(loop, thread or threading.get_ident())

    def remove(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch it no more."""
        with self._lock:
            self._loops.pop(id(loop), None)

    def _run(self) -> None:
        due_s = self._clock()
        while not self._stop.wait(max(0.0, due_s - self._clock())):
            now_s = self._clock()
            late = now_s - due_s >= self._stall_s / 2
            due_s = now_s + self._beat_s
            with self._lock:
                watched = list(self._loops.values())
            for each in watched:
                self._beat(each, now_s, late)

    def _beat(self, watched: _Loop, now_s: float, late: bool) -> None:
        if watched.sent_s is not None and watched.answered_s is None:
            watched.late |= late
            if now_s - watched.sent_s >= self._stall_s / 2:
                watched.seen = _look(watched.thread) or watched.seen
            return
        if watched.sent_s is not None and watched.answered_s is not None:
            watched.late |= late
            self._note(watched, watched.answered_s)
        watched.sent_s, watched.answered_s, watched.seen, watched.late = now_s, None, None, False

        def answer() -> None:
            watched.answered_s = self._clock()

        try:
            watched.loop.call_soon_threadsafe(answer)
        except RuntimeError:  # the loop was closed
            self.remove(watched.loop)

    def _note(self, watched: _Loop, answered_s: float) -> None:
        sent_s = watched.sent_s if watched.sent_s is not None else answered_s
        lag_s = answered_s - sent_s
        self.log.lags_s.append(lag_s)
        if lag_s < self._stall_s or len(self.log.stalls) >= MOST_STALLS:
            return
        file, line, function, inside = watched.seen or ("", 0, "(not seen)", "")
        self.log.stalls.append(
            Stall(
                at_s=sent_s - self._began_s,
                length_s=lag_s,
                file=file,
                line=line,
                function=function,
                inside=inside,
                thread=_thread_name(watched.thread),
                watcher_late=watched.late or not watched.seen,
            )
        )


@contextmanager
def watching_all(watch: StallWatch) -> Iterator[StallLog]:
    """Watch every loop that begins to run inside the block, by the hook that all loops call."""
    events = asyncio.events
    original = events._set_running_loop

    def hooked(loop: asyncio.AbstractEventLoop | None) -> None:
        original(loop)
        if loop is not None:
            watch.add(loop)

    events._set_running_loop = hooked
    asyncio._set_running_loop = hooked
    watch.start()
    try:
        yield watch.log
    finally:
        events._set_running_loop = original
        asyncio._set_running_loop = original
        watch.stop()


def observe(log: StallLog) -> Observation:
    """`fail` with the worst blocking line, `pass` without stalls, `inconclusive` when no loop ran."""
    cost = Cost(wall_s=log.watched_s)
    if not log.lags_s:
        return Observation(
            probe=NAME, rung=Rung.TRACE, verdict=Verdict.INCONCLUSIVE, summary="cannot tell: no event loop ran",
            where=Where(interval_s=(0.0, log.watched_s)), cost=cost,
        )  # fmt: skip
    lags = sorted(log.lags_s)
    p99_s = lags[-(-len(lags) * 99 // 100) - 1]
    blocked_s = sum(stall.length_s for stall in log.stalls)
    quantities = (
        Quantity(name="lag_p99_s", value=p99_s, unit="s", n=len(lags)),
        Quantity(name="lag_max_s", value=lags[-1], unit="s", n=len(lags)),
        Quantity(name="blocked_share", value=min(1.0, blocked_s / max(log.watched_s, 1e-9)), unit="1", n=len(lags)),
    )
    signals: dict[str, float | str | bool] = {"event_loop_lag_p99_s": p99_s, "event_loop_stalls": len(log.stalls)}
    if not log.stalls:
        return Observation(
            probe=NAME, rung=Rung.TRACE, verdict=Verdict.PASS, quantities=quantities, signals=signals, cost=cost,
            summary=f"no stall; the loop was at most {lags[-1] * 1e3:.1f} ms late in {len(lags)} beats",
            where=Where(interval_s=(0.0, log.watched_s)),
        )  # fmt: skip
    (file, line, function), total_s = _worst(log)
    worst = next(stall for stall in log.stalls if (stall.file, stall.line, stall.function) == (file, line, function))
    frame = f"{function} ({file}:{line})"
    signals |= {"blocking_frame": frame, "blocked_s": blocked_s}
    return Observation(
        probe=NAME,
        rung=Rung.TRACE,
        verdict=Verdict.FAIL,
        summary=f"{len(log.stalls)} stalls, {blocked_s:.3f} s; {frame} blocks the loop for {total_s:.3f} s",
        where=Where(
            file=file or None,
            line=line or None,
            thread=worst.thread,
            interval_s=(worst.at_s, worst.at_s + worst.length_s),
        ),
        cost=cost,
        quantities=quantities,
        signals=signals,
        detail={"stalls": [{name: getattr(stall, name) for name in Stall.__slots__} for stall in log.stalls[:50]]},
    )


def _worst(log: StallLog) -> tuple[tuple[str, int, str], float]:
    totals: dict[tuple[str, int, str], float] = {}
    for stall in log.stalls:
        key = (stall.file, stall.line, stall.function)
        totals[key] = totals.get(key, 0.0) + stall.length_s
    return max(totals.items(), key=lambda each: each[1])


def _look(thread: int) -> tuple[str, int, str, str] | None:
    """The innermost frame outside the standard library, and the innermost of all."""
    frame: FrameType | None = sys._current_frames().get(thread)
    if frame is None:
        return None
    inside = f"{frame.f_code.co_name} ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
    library = str(Path(asyncio.__file__).parent.parent)
    here: FrameType | None = frame
    while here is not None and _in_library(here.f_code.co_filename, library):
        here = here.f_back
    if here is None:
        return None
    return here.f_code.co_filename, here.f_lineno, here.f_code.co_name, inside


def _in_library(file: str, library: str) -> bool:
    return file.startswith("<") or (file.startswith(library) and "site-packages" not in file)


def _thread_name(ident: int) -> str:
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), str(ident))
