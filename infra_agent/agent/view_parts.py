"""Parts of the dossier, each a plain reading of the ledger: stack, observations, looks, actions, playbooks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from infra_agent.agent.dossier import (
    ActionView,
    ObservationView,
    PlaybookView,
    PredictionView,
    ReadingView,
    StackView,
)
from infra_agent.agent.reading import VISIBLE_READINGS
from infra_agent.changes.sources import source_names
from infra_agent.goal.model import Goal
from infra_agent.harness.figure import quantity_name
from infra_agent.harness.session import Session
from infra_agent.ledger import artifacts
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState
from infra_agent.library.playbooks import Playbook, Signals, load_playbooks
from probes.base import Verdict

FIGURES_SHOWN = 7
ACTIONS_SHOWN = 12
SNAPSHOT = "effective-state"
HEADLINES = (
    "output_tok_per_s", "goodput_per_s", "ttft_p50_s", "ttft_p90_s", "tpot_p50_s", "e2e_p50_s", "memory_bytes",
    "startup_s", "answers_same", "answers_near_tie", "answers_changed", "decoding_max", "decoding_mean",
    "in_flight_mean", "queue_wait_share", "serialised", "cores_used", "engaged", "device",
)  # fmt: skip
"""Figures and signals that are shown first; of the others the number is told."""


def stack_view(session: Session) -> StackView:
    """The stack and its frozen workload, in words."""
    stack, started = session.stack, session.state.started
    work = stack.workload
    load = session.load
    asked = f"{load.concurrency} at a time" if load.concurrency else f"{load.rate_per_s:g} requests/s"
    return StackView(
        name=stack.name,
        engine=str(started.environment.get("engine_version", stack.engine)),
        model=stack.served_model or stack.model,
        machine=", ".join(f"{name} {value}" for name, value in sorted(started.environment.items())),
        workload=f"{work.requests} requests of {work.max_tokens} tokens, {asked}, {work.endpoint}, {work.prompts}",
        sources=source_names(stack),
    )


def observation_views(state: RunState, goal: Goal, lane: k.Lane) -> tuple[ObservationView, ...]:
    """Observations of a lane and of stock.

    Windows of blocks are left to the estimates that they make up, readings of an engine to the engagement proofs.
    """
    first = (quantity_name(goal.metric, goal.statistic), *HEADLINES)
    return tuple(
        _observation(made, first)
        for made in state.observations.values()
        if made.purpose not in ("block", "final") and made.lane == lane and not _only_read(made)
    )


def _only_read(made: k.ObservationMade) -> bool:
    return made.observation.get("probe") == SNAPSHOT and made.observation.get("verdict") == Verdict.PASS.value


def _observation(made: k.ObservationMade, first: Sequence[str]) -> ObservationView:
    document = made.observation
    return ObservationView(
        id=made.id,
        rung=str(document.get("rung", "")),
        probe=str(document.get("probe", "")),
        candidate=made.candidate,
        purpose=made.purpose,
        verdict=str(document.get("verdict", "error")),
        summary=str(document.get("summary", "")),
        figures=_figures(document, first),
    )


def _figures(document: Mapping[str, Any], first: Sequence[str]) -> tuple[str, ...]:
    found = {str(name): f"{name} {_short(value)}" for name, value in document.get("signals", {}).items()}
    for quantity in document.get("quantities", ()):
        unit = "" if quantity["unit"] == "1" else f" {quantity['unit']}"
        found[str(quantity["name"])] = f"{quantity['name']} {float(quantity['value']):.4g}{unit}"
    shown = [found[name] for name in dict.fromkeys(first) if name in found][:FIGURES_SHOWN]
    more = len(found) - len(shown)
    return (*shown, f"{more} more figures") if more else tuple(shown)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def prediction_views(state: RunState, stated: k.HypothesisStated) -> tuple[PredictionView, ...]:
    """A hypothesis' ranges, each beside the newest measurement of a candidate that tests it."""
    return tuple(_prediction(state, stated.id, prediction) for prediction in stated.predictions)


def _prediction(state: RunState, hypothesis: str, prediction: Mapping[str, Any]) -> PredictionView:
    rung, metric = str(prediction["rung"]), str(prediction["metric"])
    scores = [s for s in state.scores if (s.hypothesis, s.rung, s.metric) == (hypothesis, rung, metric)]
    last = scores[-1] if scores else None
    return PredictionView(
        rung=rung,
        metric=metric,
        low=float(prediction["low"]),
        high=float(prediction["high"]),
        measured=last.measured if last else None,
        inside=last.inside if last else None,
    )


def reading_views(session: Session) -> tuple[ReadingView, ...]:
    """All looks; the newest with their text."""
    readings = session.state.readings
    visible = {reading.id for reading in readings[-VISIBLE_READINGS:]}
    return tuple(_reading(session, reading, reading.id in visible) for reading in readings)


def _reading(session: Session, reading: k.ReadingMade, visible: bool) -> ReadingView:
    path = artifacts.path_of(session.run_dir, reading.artifact) if visible else None
    return ReadingView(
        id=reading.id,
        turn=reading.turn,
        source=reading.source,
        text=path.read_text(encoding="utf-8") if path is not None else "",
        lines=reading.lines,
        total=reading.total,
        left_out=reading.left_out,
    )


def action_views(state: RunState) -> tuple[ActionView, ...]:
    """The newest actions of the brain with their ends, refused ones among them, oldest first."""
    taken = [ActionView(turn=t.turn, action=_words(t.action), result=t.result, refused=False) for t in state.taken]
    refused = [
        ActionView(turn=r.turn, action=_words(_parsed(r.action)), result=r.error, refused=True) for r in state.refused
    ]
    return tuple(sorted([*taken, *refused], key=lambda view: view.turn)[-ACTIONS_SHOWN:])


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {"kind": text}
    return document if isinstance(document, dict) else {"kind": text}


def _words(action: Mapping[str, Any]) -> str:
    """An action in few words: its kind and the fields that were set."""
    fields = {name: value for name, value in action.items() if name != "kind" and value not in ("", [], None)}
    return f"{action.get('kind', '')} {json.dumps(fields, ensure_ascii=False)}" if fields else str(action.get("kind"))


def playbook_views(goal: Goal, signals: Signals) -> tuple[PlaybookView, ...]:
    """The playbooks whose symptom is observed, in the order in which they are tried."""
    return tuple(
        PlaybookView(name=page.name, symptom=page.symptom, families=tuple(lever.family for lever in page.levers))
        for page in _pages()
        if page.matches(goal.metric, signals)
    )


@lru_cache(maxsize=1)
def _pages() -> tuple[Playbook, ...]:
    """Read once: the files are part of the installation."""
    return load_playbooks()
