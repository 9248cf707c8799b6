"""Scores stated ranges against what was measured, rung by rung, and says how well a brain predicts.

Covered: the goal's figure by its estimate (proved blocks before a screen), any other quantity or numeric signal as the
ratio of the candidate's newest observation to its base's. Ratios are oriented: above 1 is better; a signal, which has
no better side, is the plain ratio.
Score: interval score of a nominal 80 % range on the log ratio, lower is better.
Source: Gneiting and Raftery 2007, Strictly proper scoring rules, section 6.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from infra_agent.agent.dossier import CalibrationView
from infra_agent.goal.model import Goal, Metric
from infra_agent.harness.figure import quantity_name
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState, RunState
from probes.base import Rung

NOMINAL_MISS = 0.2


class Found(NamedTuple):
    """An oriented ratio and what it rests on: proved, screen or windows."""

    ratio: float
    basis: str


def score_predictions(session: Session) -> None:
    """Record the score of every prediction whose figure is there now, once per kind of evidence."""
    state = session.state
    known = {(s.candidate, s.rung, s.metric, s.basis) for s in state.scores}
    for candidate in state.candidates.values():
        stated = state.hypotheses.get(candidate.proposed.hypothesis)
        if stated is None or candidate.proposed.lane != "agent":
            continue
        for prediction in stated.predictions:
            scored = _scored(state, session.goal, candidate, prediction)
            if scored is None or (scored.candidate, scored.rung, scored.metric, scored.basis) in known:
                continue
            session.ledger.append(scored)


def _scored(
    state: RunState, goal: Goal, candidate: CandidateState, prediction: Mapping[str, Any]
) -> k.PredictionScored | None:
    rung, metric = str(prediction["rung"]), str(prediction["metric"])
    found = measured_ratio(state, goal, candidate, rung, metric)
    if found is None:
        return None
    low, high = float(prediction["low"]), float(prediction["high"])
    return k.PredictionScored(
        hypothesis=candidate.proposed.hypothesis,
        candidate=candidate.proposed.id,
        rung=rung,
        metric=metric,
        low=low,
        high=high,
        measured=found.ratio,
        inside=low <= found.ratio <= high,
        score=interval_score(low, high, found.ratio),
        basis=found.basis,
    )


def interval_score(low: float, high: float, measured: float) -> float:
    """Width of the range plus a penalty for missing it, on the log scale."""
    bottom, top, seen = math.log(low), math.log(high), math.log(measured)
    return (top - bottom) + 2 / NOMINAL_MISS * (max(0.0, bottom - seen) + max(0.0, seen - top))


def measured_ratio(state: RunState, goal: Goal, candidate: CandidateState, rung: str, metric: str) -> Found | None:
    """What was measured of this figure; None while nothing was, or where it has no ratio."""
    if rung == Rung.LOAD.value and metric in _goal_names(goal):
        found = _estimated(candidate)
        if found is not None:
            return found
        metric = quantity_name(goal.metric, goal.statistic)
    own = _newest(state, candidate.proposed.id, rung, metric)
    base = _newest(state, candidate.proposed.base, rung, metric)
    if own is None or base is None or own <= 0 or base <= 0:
        return None
    return Found(base / own if _lower_is_better(metric) else own / base, "windows")


def measurable(state: RunState, goal: Goal) -> dict[str, tuple[str, ...]]:
    """Names of figures by rung: the goal's own, and all that the stock configuration's observations hold."""
    found: dict[str, dict[str, None]] = {Rung.LOAD.value: dict.fromkeys(_goal_names(goal))}
    for made in state.observations.values():
        if made.candidate == "stock":
            names = found.setdefault(str(made.observation.get("rung", "")), {})
            names.update(dict.fromkeys(name for name, _ in _figures(made.observation)))
    return {rung: tuple(names) for rung, names in found.items() if names}


def calibration(state: RunState) -> tuple[CalibrationView, ...]:
    """Hits and mean score by rung, each prediction counted once with its best evidence."""
    latest = {(s.candidate, s.rung, s.metric): s for s in state.scores}
    rungs = dict.fromkeys(score.rung for score in latest.values())
    return tuple(_of_rung(rung, [s for s in latest.values() if s.rung == rung]) for rung in rungs)


def _of_rung(rung: str, scores: list[k.PredictionScored]) -> CalibrationView:
    mean = math.fsum(score.score for score in scores) / len(scores)
    return CalibrationView(rung=rung, scored=len(scores), inside=sum(s.inside for s in scores), mean_score=mean)


def _goal_names(goal: Goal) -> tuple[str, ...]:
    return tuple(dict.fromkeys((quantity_name(goal.metric, goal.statistic), goal.metric.value)))


def _estimated(candidate: CandidateState) -> Found | None:
    verdict, screened = candidate.verdict, candidate.screened
    if verdict is not None and verdict.estimate is not None:
        proved = any(block.valid for block in candidate.blocks)
        return Found(verdict.estimate.ratio, "proved" if proved else "screen")
    return Found(screened.estimate.ratio, "screen") if screened is not None else None


def _newest(state: RunState, candidate: str, rung: str, metric: str) -> float | None:
    for made in reversed(list(state.observations.values())):
        document = made.observation
        if made.candidate == candidate and document.get("rung") == rung and document.get("verdict") == "pass":
            value = dict(_figures(document)).get(metric)
            if value is not None:
                return value
    return None


def _figures(document: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    for quantity in document.get("quantities", ()):
        yield str(quantity["name"]), float(quantity["value"])
    for name, value in document.get("signals", {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield str(name), float(value)


def _lower_is_better(metric: str) -> bool:
    """Times and memory; rates end in `_per_s`."""
    return metric == Metric.MEMORY_BYTES.value or (metric.endswith("_s") and not metric.endswith("_per_s"))
