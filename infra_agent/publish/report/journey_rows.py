"""Rows of the journey: candidates in time, what rungs cost, what each kept change added."""

from __future__ import annotations

from infra_agent.publish.report.rows import End, EstimateRow, Row


class JourneyPoint(Row):
    """A candidate's end in time. `ratio` to stock; `best` is the best ratio so far. Seconds are of the budget."""

    candidate: str
    title: str
    at_s: float
    ratio: float | None
    best: float
    end: End
    event: int


class RungCost(Row):
    """A rung of the ladder: seconds inside its probes, and the candidates whose climb ended there."""

    rung: str
    wall_s: float
    observations: int
    ended: list[str]


class AttributionRow(Row):
    """An accepted change: its gain on its base, and a measured configuration that is the best without it."""

    candidate: str
    title: str
    added: EstimateRow | None
    left_out: str
    left_out_ratio: EstimateRow | None
    event: int
