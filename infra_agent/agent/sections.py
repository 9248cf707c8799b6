"""The dossier's sections as lines: one entry a line, the same words for a model's prompt, `recall` and MCP.

Text from outside (engines, files, models) stands between « and », cleaned and cut to a length; a cut is marked with the
number of characters it left out. Not covered: which entries fit into a prompt (`brains.llm.prompt`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from infra_agent.agent.actions import Section
from infra_agent.agent.dossier import CandidateView, Dossier, FamilyView, HypothesisView, ObservationView
from infra_agent.agent.quote import inline
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.model import ParameterValue

RUNGS = ("static", "numeric", "micro", "trace", "events", "load")
REASON_CHARACTERS = 240
CAUSE_CHARACTERS = 300


def section_entries(dossier: Dossier, section: Section) -> list[str]:
    """All entries of a section, in the dossier's order."""
    return _SECTIONS[section](dossier)


def _parameters(dossier: Dossier) -> list[str]:
    return [_parameter(p, dossier) for p in dossier.parameters if p.name in dossier.space]


def _parameter(parameter: Parameter, dossier: Dossier) -> str:
    now = dossier.best_settings.get(parameter.name, parameter.default)
    values = ", ".join(value_text(value) for value in dossier.space[parameter.name])
    shown = "not set" if now is None else value_text(now)
    risk = f"risk {parameter.risk.value}"
    return f"{parameter.name} = {shown} | may be {values} | {risk} | family {parameter.family} | {parameter.evidence}"


def _hypotheses(dossier: Dossier) -> list[str]:
    return [hypothesis_line(hypothesis) for hypothesis in dossier.hypotheses]


def hypothesis_line(hypothesis: HypothesisView) -> str:
    """A hypothesis with its predictions beside what was measured."""
    parts = [
        f"{hypothesis.id} {hypothesis.status}",
        f"family {inline(hypothesis.family, 64)}",
        f"cause {inline(hypothesis.cause, CAUSE_CHARACTERS)}",
    ]
    if hypothesis.place:
        parts.append(f"at {inline(hypothesis.place, 120)}")
    if hypothesis.refuted_by:
        probe = f" ({inline(hypothesis.refuting_probe, 64)})" if hypothesis.refuting_probe else ""
        parts.append(f"refuted by {inline(hypothesis.refuted_by, 160)}{probe}")
    for p in hypothesis.predictions:
        seen = "not measured" if p.measured is None else f"measured x{p.measured:.3g}"
        hit = {None: "", True: ", inside", False: ", outside"}[p.inside]
        parts.append(f"predicts {p.rung} {inline(p.metric, 64)} x{p.low:g} to x{p.high:g}: {seen}{hit}")
    return " | ".join(parts)


def _observations(dossier: Dossier) -> list[str]:
    ordered = sorted(dossier.observations, key=lambda o: RUNGS.index(o.rung) if o.rung in RUNGS else len(RUNGS))
    return [observation_line(observation) for observation in ordered]


def observation_line(observation: ObservationView) -> str:
    """One observation with its headline figures."""
    figures = f" | {', '.join(observation.figures)}" if observation.figures else ""
    head = f"{observation.id} {observation.rung} {observation.probe} of {observation.candidate}"
    what = f"{head} ({observation.purpose}): {observation.verdict}"
    # A window's summary repeats its figures.
    said = figures and observation.rung == "load" and observation.verdict == "pass"
    return f"{what}{figures}" if said else f"{what}{figures} | {inline(observation.summary, REASON_CHARACTERS)}"


def _tried(dossier: Dossier) -> list[str]:
    return [candidate_line(candidate) for candidate in dossier.candidates]


def candidate_line(candidate: CandidateView) -> str:
    """A candidate: what it changes, and how it ended."""
    parts = [
        f"{candidate.id} [{candidate.hypothesis or 'search'}] {_change(candidate)} on {candidate.base}",
        f"risk {candidate.risk}",
        candidate.status,
    ]
    if candidate.screen_ratio is not None:
        times = f" over {candidate.measurements} launches" if candidate.measurements > 1 else ""
        parts.append(f"screen x{candidate.screen_ratio:.3g}{times}: {candidate.screen}")
    if candidate.proved_ratio is not None:
        parts.append(f"proved x{candidate.proved_ratio:.3g}")
    if candidate.reason:
        parts.append(inline(candidate.reason, REASON_CHARACTERS))
    return " | ".join(parts)


def _change(candidate: CandidateView) -> str:
    """What a candidate changes: parameters, files, or both."""
    patched = f"patch of {inline(', '.join(candidate.patched), 200)}" if candidate.patched else ""
    settings = settings_text(candidate.changes) if candidate.changes or not patched else ""
    return ", ".join(filter(None, (settings, patched)))


def _families(dossier: Dossier) -> list[str]:
    """Untried families first, one by one; those that are closed for the same reason together, last."""
    ordered = sorted(filter(_open, dossier.families), key=lambda family: family.status != "untried")
    lines = [f"{f.family} ({f.group}): {f.status}: {inline(f.detail, 160)}" for f in ordered]
    closed: dict[str, list[str]] = {}
    for family in dossier.families:
        if not _open(family):
            closed.setdefault(family.detail, []).append(family.family)
    return [*lines, *(f"closed: {', '.join(names)}: {inline(why, 160)}" for why, names in closed.items())]


def _open(family: FamilyView) -> bool:
    return family.status != "closed"


def _readings(dossier: Dossier) -> list[str]:
    lines = []
    for reading in dossier.readings:
        left = f"; left out: {reading.left_out}" if reading.left_out else ""
        where = "shown below" if reading.text else "no longer shown: ask again"
        source = inline(reading.source, 300)
        lines.append(f"{reading.id} turn {reading.turn}: {source}, {reading.lines} of {reading.total}, {where}{left}")
    return lines


def _actions(dossier: Dossier) -> list[str]:
    lines = []
    for action in dossier.actions:
        mark = "REFUSED" if action.refused else "done"
        end = f"{mark}: {inline(action.result, 400)}" if action.result else mark
        lines.append(f"turn {action.turn}: {inline(action.action, 200)} → {end}")
    return lines


def _playbooks(dossier: Dossier) -> list[str]:
    return [f"{p.name}: {inline(p.symptom, 200)}; levers: {', '.join(p.families)}" for p in dossier.playbooks]


def _files(dossier: Dossier) -> list[str]:
    more = dossier.code.total - len(dossier.code.files)
    rest = [f"{more} more: search_code finds them"] if more > 0 else []
    return [*(inline(path, 200) for path in dossier.code.files), *rest]


_SECTIONS: Mapping[Section, Callable[[Dossier], list[str]]] = {
    "parameters": _parameters,
    "hypotheses": _hypotheses,
    "observations": _observations,
    "tried": _tried,
    "families": _families,
    "readings": _readings,
    "actions": _actions,
    "playbooks": _playbooks,
    "files": _files,
}


def settings_text(settings: Mapping[str, ParameterValue]) -> str:
    """Parameter settings as NAME=VALUE."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in settings.items()) or "no change"


def value_text(value: ParameterValue) -> str:
    """A value as JSON writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
