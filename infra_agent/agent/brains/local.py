"""A playbook's local steps: the probes that it reads, and the code that its transforms propose, one at a time.

Covered: a probe looks once at each best configuration; a proposal becomes a hypothesis, then a candidate, and is not
tried again when it was refused.
Not covered: running anything; every step is an action.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from infra_agent.agent.actions import Action, HypothesiseAction, MeasureAction, Prediction, ProposeAction
from infra_agent.agent.dossier import Dossier, ProposalView
from infra_agent.library.playbooks import Playbook, Transform

LONGEST_SOURCE = 100


class Next(NamedTuple):
    """A step in words, and the action that takes it."""

    title: str
    action: Action


def figure_rung(dossier: Dossier) -> Literal["load", "micro"]:
    """The rung on which the goal's figure is measured, for predictions."""
    return "load" if dossier.figure_probe == "load" else "micro"


def looks(playbook: Playbook, dossier: Dossier) -> Iterator[Next]:
    """Probes that the page reads and that have not looked at the best yet. One that the stack lacks is left out."""
    for name in playbook.probes:
        view = next((probe for probe in dossier.probes if probe.name == name), None)
        if view is not None and dossier.best not in view.looked_at:
            yield Next(f"the probe {name}", MeasureAction(probe=name, target=dossier.best))


def code_steps(playbook: Playbook, dossier: Dossier) -> Iterator[Next]:
    """What the page's transforms have to propose for the best."""
    if dossier.code.closed:
        return
    for transform in playbook.transforms:
        if transform.name in dossier.transforms and transform.name not in dossier.transformed:
            yield Next(f"the transform {transform.name}", _ask(transform, dossier))
        for proposal in dossier.proposals:
            if proposal.transform == transform.name:
                yield from _untried(playbook, transform, proposal, dossier)


def _ask(transform: Transform, dossier: Dossier) -> Action:
    return MeasureAction(probe=f"transform:{transform.name}", target=dossier.best)


def _untried(playbook: Playbook, transform: Transform, proposal: ProposalView, dossier: Dossier) -> Iterator[Next]:
    source = f"playbook:{playbook.name}/{transform.name}"[: LONGEST_SOURCE - 13] + f"#{proposal.digest}"
    stated = next((each for each in dossier.hypotheses if each.source == source), None)
    if stated is None:
        yield Next(proposal.claim, _hypothesis(transform, proposal, dossier, source))
        return
    tested = any(candidate.hypothesis == stated.id for candidate in dossier.candidates)
    if not tested and stated.id not in dossier.refused_hypotheses:
        yield Next(proposal.claim, ProposeAction(hypothesis=stated.id, diff=proposal.diff, base="best"))


def _hypothesis(transform: Transform, proposal: ProposalView, dossier: Dossier, source: str) -> HypothesiseAction:
    low = proposal.low if proposal.low is not None else transform.low
    high = proposal.high if proposal.high is not None else transform.high
    predicted = Prediction(
        rung=figure_rung(dossier), metric=dossier.goal.metric.value, low=min(low, high), high=max(low, high)
    )
    return HypothesiseAction(
        family=transform.family,
        cause=proposal.claim,
        place=proposal.place or transform.place,
        refuted_by=proposal.refuted_by or transform.refuted_by,
        predictions=(predicted,),
        source=source,
    )
