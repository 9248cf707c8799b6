"""The default brain: walks the playbooks whose symptoms were observed, lever by lever, until budget or levers end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from infra_agent.agent.actions import (
    Action,
    ConcludeAction,
    HypothesiseAction,
    MeasureAction,
    ParameterChange,
    Prediction,
    ProposeAction,
    ProveAction,
)
from infra_agent.agent.brains.local import Next, code_steps, figure_rung, looks
from infra_agent.agent.brains.spending import room_for_candidate, worth_proving
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.levers import ANY_FAMILY, skip_all, untried
from infra_agent.library.playbooks import Lever, Playbook
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.model import ParameterValue

EVERYTHING = "every lever of the search space was tried"
EVERYTHING_LOCAL = "every probe, lever and transform that a playbook names for this goal was tried"


class Step(NamedTuple):
    """One thing to try: a lever of a playbook, and a value of one of its parameters."""

    playbook: Playbook
    lever: Lever
    parameter: Parameter
    value: ParameterValue


class PlaybookBrain:
    """Deterministic: the same dossier gives the same action."""

    name = "playbook"

    def __init__(self, playbooks: Sequence[Playbook]) -> None:
        self._playbooks = tuple(playbooks)

    def next(self, dossier: Dossier) -> Action:
        """Measure first, prove what screened well, then try the next lever; conclude when nothing is left."""
        if not dossier.measured:
            return MeasureAction(probe=dossier.figure_probe, target="stock")
        promising = next(
            (
                c
                for c in dossier.candidates
                if c.screen == "promote" and c.status == "screened" and worth_proving(c, dossier)
            ),
            None,
        )
        if promising is not None:
            return ProveAction(candidate=promising.id)
        step = next(self._steps(dossier), None)
        if step is None:
            left = skip_all(dossier, "no playbook has a lever for it")
            reason = EVERYTHING if dossier.figure_probe == "load" else EVERYTHING_LOCAL
            return ConcludeAction(reason=reason, skipped=left)
        if not room_for_candidate(dossier):
            return ConcludeAction(reason=f"no budget left for another candidate; next would be {step.title}")
        return step.action

    def _steps(self, dossier: Dossier) -> Iterator[Next]:
        """All untried steps, in the order of the playbooks that match: look, then levers, then code."""
        for playbook in self._playbooks:
            if not playbook.serves(dossier.goal.metric):
                continue
            yield from looks(playbook, dossier)
            if not playbook.matches(dossier.goal.metric, dossier.signals):
                continue
            for lever in playbook.levers:
                for parameter, value in untried(lever.family, dossier):
                    step = Step(playbook, lever, parameter, value)
                    yield Next(parameter.title, self._try(step, dossier))
            yield from code_steps(playbook, dossier)

    def _try(self, step: Step, dossier: Dossier) -> Action:
        source = f"playbook:{step.playbook.name}"
        family = step.parameter.family
        stated = next((h for h in dossier.hypotheses if h.source == source and h.family == family), None)
        if stated is None:
            return _hypothesis(step, dossier, source)
        change = ParameterChange(parameter=step.parameter.name, value=step.value)
        return ProposeAction(hypothesis=stated.id, changes=(change,), base="best")


def _hypothesis(step: Step, dossier: Dossier, source: str) -> HypothesiseAction:
    metric = dossier.goal.metric.value
    return HypothesiseAction(
        family=step.parameter.family,
        cause=step.lever.cause,
        place=step.lever.place if step.lever.family != ANY_FAMILY else step.parameter.title,
        refuted_by=step.lever.refuted_by,
        predictions=(Prediction(rung=figure_rung(dossier), metric=metric, low=step.lever.low, high=step.lever.high),),
        source=source,
    )
