"""How late the client's own loop is: a client that is late reports its own delay as the server's.

Every 5 ms the later of two is kept: how late this wake-up came, and the longest turn of the loop since the last one,
for which bytes that were ready may have waited.
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.load.types import LoopLag
from probes.load.wire.loop import Loop, Timer

BEAT_S = 0.005


class Heartbeat:
    """Beats from `start` to `stop`."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._due_s = 0.0
        self._timer: Timer | None = None
        self.lags_s: list[float] = []

    def start(self) -> None:
        """Begin to beat."""
        self._loop.longest_turn_s = 0.0
        self._plan()

    def stop(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _plan(self) -> None:
        self._due_s = self._loop.clock() + BEAT_S
        self._timer = self._loop.at(self._due_s, self._beat)

    def _beat(self) -> None:
        late_s = self._loop.clock() - self._due_s
        self.lags_s.append(max(late_s, self._loop.longest_turn_s))
        self._loop.longest_turn_s = 0.0
        self._plan()


def summary(lags_s: Sequence[float]) -> LoopLag:
    """Mean, nearest-rank p99 and maximum of the lags."""
    lags = sorted(lags_s)
    if not lags:
        return LoopLag(beats=0, mean_s=0.0, p99_s=0.0, max_s=0.0)
    p99 = lags[-(-len(lags) * 99 // 100) - 1]
    return LoopLag(beats=len(lags), mean_s=sum(lags) / len(lags), p99_s=p99, max_s=lags[-1])


def worst(lags: Sequence[LoopLag]) -> LoopLag:
    """Of several client processes the latest one counts."""
    return LoopLag(
        beats=min(lag.beats for lag in lags),
        mean_s=max(lag.mean_s for lag in lags),
        p99_s=max(lag.p99_s for lag in lags),
        max_s=max(lag.max_s for lag in lags),
    )
