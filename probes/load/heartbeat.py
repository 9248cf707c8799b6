"""How late the client's own event loop wakes: a client that is late reports its own delay as the server's."""

from __future__ import annotations

import asyncio
import time

from probes.load.types import LoopLag

BEAT_S = 0.005


class Heartbeat:
    """Wakes every 5 ms while it runs and keeps how late each wake-up was."""

    def __init__(self) -> None:
        self._lags_s: list[float] = []

    async def beat(self) -> None:
        """Run until cancelled."""
        while True:
            due_s = time.perf_counter() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self._lags_s.append(max(0.0, time.perf_counter() - due_s))

    def lag(self) -> LoopLag:
        """Summary of the wake-ups so far."""
        lags = sorted(self._lags_s)
        if not lags:
            return LoopLag(beats=0, mean_s=0.0, p99_s=0.0, max_s=0.0)
        p99 = lags[-(-len(lags) * 99 // 100) - 1]
        return LoopLag(beats=len(lags), mean_s=sum(lags) / len(lags), p99_s=p99, max_s=lags[-1])
