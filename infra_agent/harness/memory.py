"""What the ledger remembers of a configuration: snapshots, reference answers, figures of earlier launches."""

from __future__ import annotations

from collections.abc import Mapping

from infra_agent.changes.change import STOCK
from infra_agent.goal.model import Goal
from infra_agent.harness.figure import oriented_log, quantity_name
from infra_agent.harness.stalls import stall_free_name
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState
from probes.base import Json
from probes.numeric.types import Answer

FIGURE_PROBES = ("load", "experiment")
"""Probes that take the goal's figure: of a server, and of a stack that is an experiment."""
FIGURE_PURPOSES = ("baseline", "screen", "measure", "block", "final")


def snapshot_of(state: RunState, candidate: str) -> Mapping[str, Json]:
    """The newest effective-state snapshot of a configuration; empty when there is none."""
    for made in reversed(state.standing):
        if made.candidate == candidate and made.observation.get("probe") == "effective-state":
            snapshot: Mapping[str, Json] = made.observation.get("detail", {}).get("snapshot", {})
            return snapshot
    return {}


def reference_answers(state: RunState) -> tuple[Answer, ...] | None:
    """Stock's answers, or None when they were not collected or some of them failed."""
    for made in reversed(state.standing):
        observation = made.observation
        if made.candidate == STOCK and observation.get("probe") == "reference-answers":
            if observation.get("verdict") != "pass":
                return None
            return tuple(Answer.from_json(document) for document in observation["detail"]["answers"])
    return None


def figure_in(made: k.ObservationMade, goal: Goal, *, stall_free: bool = False) -> float | None:
    """The goal's figure in a recorded load observation; `stall_free`: without its stalls, where it had some."""
    observation = made.observation
    if observation.get("probe") not in FIGURE_PROBES or observation.get("verdict") != "pass":
        return None
    name = quantity_name(goal.metric, goal.statistic)
    without = stall_free_name(goal.metric, goal.statistic) if stall_free else None
    names = (without, name) if without is not None else (name,)
    values = [value for wanted in names if (value := quantity_in(made, wanted)) is not None and value > 0]
    return values[0] if values else None


def launch_logs(
    state: RunState,
    goal: Goal,
    candidate: str,
    purposes: tuple[str, ...] = FIGURE_PURPOSES,
    *,
    stall_free: bool = False,
) -> list[float]:
    """Oriented logs of the goal's figure, one per launch of this configuration, oldest first."""
    values = []
    for made in state.standing:
        if made.candidate == candidate and made.purpose in purposes:
            value = figure_in(made, goal, stall_free=stall_free)
            if value is not None:
                values.append(oriented_log(goal, value))
    return values


def quantity_in(made: k.ObservationMade, name: str) -> float | None:
    """A quantity of a recorded observation by name."""
    return next((q["value"] for q in made.observation.get("quantities", ()) if q["name"] == name), None)


def figure_of(state: RunState, candidate: str, name: str) -> float | None:
    """A quantity in the newest load window of a configuration that has it."""
    for made in reversed(list(state.observations.values())):
        if made.candidate == candidate and made.observation.get("probe") in FIGURE_PROBES:
            value = quantity_in(made, name)
            if value is not None:
                return value
    return None
