"""Watches a running server for some seconds: its page, its processes, its log, and the load client beside it.

Reading costs the server one small page per interval and this machine one look at its connections. What the probe
itself sends is `GET /metrics`, to this machine or to a host that was named, and nothing else.
Covered: a window of its own, or the one of a load that runs meanwhile. Not covered: sending the load.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probes.base import Observation
from probes.events import log as logs
from probes.events import settings
from probes.events.host import HostWatch
from probes.events.observe import Evidence, observe
from probes.events.sampler import Recording, record
from probes.events.signals import Signal
from probes.load.hosts import check_target

SHORTEST_S, LONGEST_S = 0.2, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What to watch. ValueError for a target that may not be asked, or times that cannot be."""

    url: str
    seconds: float = 10.0
    interval_s: float = 0.5
    hosts: tuple[str, ...] = ()
    log: Path | None = None
    offered: int | None = None
    limits: tuple[str, ...] = ()
    engine: str | None = None
    headers: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        check_target(self.url, self.hosts)
        if not SHORTEST_S <= self.seconds <= LONGEST_S:
            raise ValueError(f"a window lasts {SHORTEST_S:g} to {LONGEST_S:g} s, not {self.seconds:g}")
        if not 0.05 <= self.interval_s <= self.seconds:
            raise ValueError(f"the interval is 0.05 s to the length of the window, not {self.interval_s:g} s")
        if self.offered is not None and self.offered < 1:
            raise ValueError("offered is the number of requests that the client means to keep open: at least 1")
        settings.from_user(self.limits)


Clock = Callable[[], float]


class Watching:
    """One window under way. `finish` ends it early or waits for its end, and gives the observation."""

    def __init__(self, watch: Watch, clock: Clock = time.monotonic) -> None:
        self._watch = watch
        self._clock = clock
        self._stop = threading.Event()
        self._host = HostWatch(watch.url)
        self._log_from = logs.size_of(watch.log) if watch.log else 0
        self._recording = Recording()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def __enter__(self) -> Watching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the window now, with one last reading."""
        self._stop.set()
        self._thread.join()

    def wait(self) -> None:
        """Wait for the window's end; an interrupt ends it early and keeps what was read."""
        while self._thread.is_alive():
            self._thread.join(0.2)

    def finish(self, beside: Sequence[Signal] = ()) -> Observation:
        """The window as an observation, `beside` being facts of the load client or a trace."""
        return observe(self.evidence(beside))

    def evidence(self, beside: Sequence[Signal] = ()) -> Evidence:
        """Everything that was gathered. Ends the window."""
        self.stop()
        if self._failed is not None:
            raise self._failed
        watch = self._watch
        told = settings.from_user(watch.limits)
        if watch.offered is not None:
            word = "told by the user"
            told.append(Signal(name="offered", value=watch.offered, unit="requests", quality="exact", source=word))
        return Evidence(
            recording=self._recording,
            log=logs.read(watch.log, self._log_from) if watch.log else None,
            beside=(*told, *beside, *self._host.signals(self._recording.wall_s)),
            command=tuple(self._host.command_line()),
            notes=(self._host.blind,) if self._host.blind else (),
            engine=watch.engine,
        )

    def _run(self) -> None:
        try:
            self._recording = record(
                self._watch.url,
                seconds=self._watch.seconds,
                interval_s=self._watch.interval_s,
                clock=self._clock,
                wait=self._stop.wait,
                on_beat=lambda _: self._host.look(),
                headers=self._watch.headers,
            )
        except BaseException as error:  # it is raised again where the window is asked for
            self._failed = error


def watch(what: Watch, beside: Sequence[Signal] = ()) -> Observation:
    """One window from beginning to end."""
    with Watching(what) as watching:
        try:
            watching.wait()
        except KeyboardInterrupt:
            watching.stop()
        return watching.finish(beside)
