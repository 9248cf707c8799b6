"""Runs the windows that were asked for, one after another, and keeps what there is when one does not end well.

Covered: one window or a sweep, an interrupt in the middle (what had been answered is kept, as an invalid window),
progress. Not covered: deciding anything about the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probes.base import Observation, Verdict, Where
from probes.load.client import SILENT
from probes.load.digest import OnRecord
from probes.load.metrics import compute
from probes.load.probe import observe, run
from probes.load.types import LoadRequest, LoadResult, RequestRecord, Window
from probes.load.validity import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One window and what is to be said about it. `started_unix_s`: when it began, to order runs of several tools."""

    observation: Observation
    result: LoadResult
    started_unix_s: float


Begin = Callable[[LoadRequest], OnRecord]


class Session:
    """Windows in order; `told` holds those that were run, also after an interrupt."""

    def __init__(self, limits: Limits | None = None, wall_clock: Callable[[], float] = time.time) -> None:
        self._limits = limits or Limits()
        self._wall_clock = wall_clock
        self.told: list[Told] = []

    @property
    def all_valid(self) -> bool:
        """Every window was run and is worth its numbers."""
        return bool(self.told) and all(told.observation.verdict is Verdict.PASS for told in self.told)

    def run(self, requests: Sequence[LoadRequest], begin: Begin) -> None:
        """Run all windows. KeyboardInterrupt propagates once the records so far are kept."""
        for request in requests:
            self._one(request, begin(request))

    def _one(self, request: LoadRequest, on_record: OnRecord) -> None:
        records: list[RequestRecord] = []
        started_unix_s, began_s = self._wall_clock(), time.perf_counter()
        where = Where(input=f"{request.base_url}, seed {request.seed}")

        def keep(record: RequestRecord) -> None:
            records.append(record)
            on_record(record)

        try:
            observation, result = run(request, where=where, limits=self._limits, on_record=keep)
        except KeyboardInterrupt:
            result = _partial(request, records, time.perf_counter() - began_s)
            observation = observe(result, where=where, limits=self._limits)
            self.told.append(Told(observation=observation, result=result, started_unix_s=started_unix_s))
            raise
        self.told.append(Told(observation=observation, result=result, started_unix_s=started_unix_s))


def _partial(request: LoadRequest, records: list[RequestRecord], wall_s: float) -> LoadResult:
    ordered = tuple(sorted(records, key=lambda record: record.id))
    window = Window(records=ordered, warmup=(), lag=SILENT, wall_s=wall_s, cut="interrupted by the user")
    metrics = compute(ordered, request)
    return LoadResult(request=request, window=window, window_s=metrics.window_s, metrics=metrics)
