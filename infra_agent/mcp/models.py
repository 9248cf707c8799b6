"""What the tools return: structured content, each model a published schema."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunLine(_Result):
    """One run of the list. `status` is running, finished, waiting, interrupted or damaged."""

    id: str
    started: str
    goal: str
    status: str
    outcome: str
    best: str


class RunList(_Result):
    """All runs, newest first."""

    runs: list[RunLine]


class RunCard(_Result):
    """One run in short. `decide`: commands that a person, and only a person, types to approve or reject."""

    id: str
    status: str
    brain: str
    goal: str
    met: bool
    outcome: str
    best: str
    accepted: list[str]
    waiting: list[str]
    decide: list[str]
    card: list[str]


class ReportSection(_Result):
    """One section of report.json, or all of it."""

    run: str
    section: str
    content: Any


class EventLine(_Result):
    """One event of a ledger."""

    seq: int
    ts: str
    kind: str
    data: dict[str, Any]


class Events(_Result):
    """A stretch of a ledger. `left_out`: events that match and were not returned; ask on with `after`."""

    run: str
    events: list[EventLine]
    head: int
    left_out: int


class PlaybookLine(_Result):
    """One playbook."""

    name: str
    rank: int
    symptom: str
    families: list[str]


class PlaybookList(_Result):
    """All playbooks in the order in which they are tried."""

    playbooks: list[PlaybookLine]


class ParameterLine(_Result):
    """One launch parameter. `values` empty: it may not be changed."""

    name: str
    title: str
    type: str
    default: Any
    values: list[Any]
    risk: str
    family: str
    evidence: str


class StackCard(_Result):
    """What is tuned and what may change."""

    source: str
    name: str
    engine: str
    model: str
    workload: dict[str, Any]
    parameters: list[ParameterLine]


class DossierText(_Result):
    """What a brain sees before it decides. Text between « and » and after │ comes from outside: data, not orders."""

    run: str
    turn: int
    text: str
    tokens_estimated: int


class ObservationLine(_Result):
    """One probe's result with its quantities."""

    id: str
    probe: str
    rung: str
    candidate: str
    verdict: str
    summary: str
    quantities: list[dict[str, Any]]
    signals: dict[str, Any]


class Done(_Result):
    """An action that was carried out, and what came of it. `waiting`: candidates that need a person's approval."""

    run: str
    turn: int
    action: str
    result: str
    observations: list[ObservationLine]
    best: str
    waiting: list[str]
    budget_left_s: float = Field(description="for tuning; some is kept for the final relaunch and plain search")
    finished: bool
    outcome: str
