"""Blocks with recorded figures: the harness measures as always, but each launch gives what the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra_agent.changes.change import STOCK
from infra_agent.harness import proving, windows
from infra_agent.harness.measuring import Measured, record
from infra_agent.harness.session import Session
from probes.base import Check, Cost, Observation, Quantity, Rung, Verdict, Where


@dataclass(frozen=True, kw_only=True)
class Window:
    """One measured window. `loss`: share of the rate that a stall took. `late`: the client was."""

    value: float
    others: float = 0.05
    names: str = ""
    loss: float = 0.0
    late: bool = False
    extra: dict[str, float] = field(default_factory=dict)

    def observation(self) -> Observation:
        if self.late:
            return self._made(
                Verdict.INVALID, (), (Check(name="client delay", ok=False, measured="9 ms", limit="3 ms"),)
            )
        plain = self.value * (1 - self.loss)
        quantities = [
            Quantity(name="output_tok_per_s", value=plain, unit="tok/s"),
            Quantity(name="stalls", value=float(self.loss > 0), unit="1"),
            *(Quantity(name=name, value=value, unit="") for name, value in self.extra.items()),
        ]
        if self.loss:
            quantities.append(Quantity(name="stall_free_output_tok_per_s", value=self.value, unit="tok/s"))
        return self._made(Verdict.PASS, tuple(quantities), ())

    def _made(self, verdict: Verdict, quantities: Any, checks: Any) -> Observation:
        signals: dict[str, float | str | bool] = {"neighbour_cores": self.others}
        return Observation(
            probe="load",
            rung=Rung.LOAD,
            verdict=verdict,
            summary="a recorded window",
            where=Where(whole_system=True),
            cost=Cost(wall_s=1.0),
            quantities=quantities,
            checks=checks,
            signals={**signals, **({"neighbours": self.names} if self.names else {})},
        )


@dataclass
class Launches:
    """What was launched, in order: (configuration, measurement seed)."""

    made: list[tuple[str, int]] = field(default_factory=list)


def recorded(monkeypatch: pytest.MonkeyPatch, window: Callable[[str, int], Window]) -> Launches:
    """Let `window(configuration, number of the launch)` stand for every launch for one measurement alone."""
    launches = Launches()

    @contextmanager
    def launched(session: Session, which: str, **_: Any) -> Iterator[str]:
        yield which

    def measure_load(session: Session, launch: str, *, candidate: str, lane: Any, purpose: Any, seed: int) -> Measured:
        observation = window(candidate, len(launches.made)).observation()
        launches.made.append((candidate, seed))
        number = record(session, observation, candidate=candidate, lane=lane, purpose=purpose, launch="")
        found = observation.quantity("output_tok_per_s")
        return Measured(number, observation, found.value if found is not None else None)

    monkeypatch.setattr(windows, "launched", launched)
    monkeypatch.setattr(windows, "measure_load", measure_load)
    monkeypatch.setattr(proving, "_wait_for_quiet", lambda session, earlier: None)
    return launches


def steady(ratio: float) -> Callable[[str, int], Window]:
    """Stock at 25 and the candidate at `ratio` times that, with half a percent between launches."""

    def window(which: str, number: int) -> Window:
        wobble = 1 + 0.005 * ((number * 7) % 5 - 2)
        return Window(value=25.0 * wobble * (1.0 if which == STOCK else ratio))

    return window
