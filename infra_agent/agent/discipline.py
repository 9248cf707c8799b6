"""Rules of conduct that the harness enforces, whatever a brain says: checked before an action is carried out.

Covered: repeats, proposals without a new observation, proposals without a hypothesis, predictions that nothing can
measure, long stretches without an experiment, and conclusions while levers are untried and budget is left.
Not covered: scope and values (`execute`), and what a change may do to numbers or production (`review`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from infra_agent.agent.actions import (
    LOOKING,
    Action,
    ConcludeAction,
    HypothesiseAction,
    MeasureAction,
    ProposeAction,
    SearchAction,
    SkippedFamily,
)
from infra_agent.agent.brains.spending import room_for_candidate, time_left_s
from infra_agent.agent.calibration import measurable
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.families import untried_families
from infra_agent.agent.refusals import ActionError
from infra_agent.harness.baseline import baseline_complete
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState

STRICT_BRAINS = frozenset({"llm", "mcp"})
"""Brains whose every proposal must follow from a stated hypothesis. The others are programs that do so, or need not."""
BLIND_PROPOSALS = 3
"""Proposals in a row that may pass without any new observation."""
SAME_MEASUREMENTS = 3
"""Measurements of one configuration in a row."""
REFUTING_PROBES = ("engagement", "answers", "overlap", "load")
"""Probes that look at every candidate, cheapest first."""
IDLE_ACTIONS = 15
"""Actions in a row that look and state, and test nothing."""


def require_conduct(session: Session, action: Action, dossier: Dossier) -> None:
    """ActionError naming the rule that this action breaks. The plain search of the honesty row is bound by none."""
    if dossier.lane != "agent":
        return
    if isinstance(action, ConcludeAction):
        _require_end(session, action, dossier)
    if session.state.started.brain not in STRICT_BRAINS or session.state.fell_back is not None:
        return
    _require_experiments(session.state, action)
    if isinstance(action, HypothesiseAction):
        _require_new(session.state, action)
        _require_measurable(session, action)
    elif isinstance(action, ProposeAction | SearchAction):
        _require_hypothesis(session.state, action)
        _require_observation(session.state)
    elif isinstance(action, MeasureAction):
        _require_variety(session.state, action)


def _require_hypothesis(state: RunState, action: ProposeAction | SearchAction) -> None:
    known = ", ".join(state.hypotheses) or "none yet"
    if not action.hypothesis:
        raise ActionError(f"cite the hypothesis this tests; stated: {known}", code="no_hypothesis")
    if action.hypothesis not in state.hypotheses:
        raise ActionError(f"no hypothesis {action.hypothesis!r}; stated: {known}", code="no_hypothesis")


def _require_observation(state: RunState) -> None:
    """So many proposals in a row, and not one of them came far enough to be looked at."""
    blind = 0
    for stamped in reversed(state.events):
        if isinstance(stamped.data, k.ObservationMade):
            break
        blind += isinstance(stamped.data, k.CandidateProposed)
    if blind >= BLIND_PROPOSALS:
        message = f"{blind} proposals in a row gave no observation: read the failed launches or measure before the next"
        raise ActionError(message, code="no_observation")


def _require_variety(state: RunState, action: MeasureAction) -> None:
    wanted = action.model_dump(mode="json")
    last = [taken.action for taken in state.taken[-SAME_MEASUREMENTS:]]
    if len(last) == SAME_MEASUREMENTS and all(taken == wanted for taken in last):
        message = f"{action.target} was measured {SAME_MEASUREMENTS} times in a row: test something, or conclude"
        raise ActionError(message, code="repeat")


def _require_experiments(state: RunState, action: Action) -> None:
    if action.kind not in LOOKING:
        return
    last = [taken.action.get("kind") for taken in state.taken[-IDLE_ACTIONS:]]
    if len(last) == IDLE_ACTIONS and all(kind in LOOKING for kind in last):
        message = f"the last {IDLE_ACTIONS} actions tested nothing: measure, propose, prove, search or conclude"
        raise ActionError(message, code="idle")


def _require_new(state: RunState, action: HypothesiseAction) -> None:
    wanted = _essence(action.family, action.cause, action.place)
    for stated in state.hypotheses.values():
        if _essence(stated.family, stated.cause, stated.place) == wanted:
            ends = [
                f"{c.proposed.id} {c.verdict.decision}: {c.verdict.reason}"
                for c in state.candidates.values()
                if c.proposed.hypothesis == stated.id and c.verdict is not None
            ]
            result = "; ".join(ends) or "not tested yet"
            raise ActionError(f"that is {stated.id} already ({result}): cite it, or state another", code="repeat")


def _essence(*parts: str) -> tuple[str, ...]:
    return tuple(" ".join(part.lower().split()) for part in parts)


def _require_measurable(session: Session, action: HypothesiseAction) -> None:
    """A prediction that nothing can measure cannot be wrong, and a probe that does not exist refutes nothing."""
    probes = (*REFUTING_PROBES, *session.stack.probes)
    if action.refuting_probe not in probes:
        known = ", ".join(probes)
        raise ActionError(f"refuting_probe: no probe {action.refuting_probe!r}; known: {known}", code="unmeasurable")
    names = measurable(session.state, session.goal)
    for prediction in action.predictions:
        figures = names.get(prediction.rung, ())
        if not figures:
            rungs = ", ".join(names)
            raise ActionError(f"nothing measures rung {prediction.rung!r} here; rungs: {rungs}", code="unmeasurable")
        if prediction.metric not in figures:
            near = difflib.get_close_matches(prediction.metric, figures, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"measured there: {', '.join(figures)}"
            message = f"rung {prediction.rung} has no figure {prediction.metric!r}; {hint}"
            raise ActionError(message, code="unmeasurable")


def _require_end(session: Session, action: ConcludeAction, dossier: Dossier) -> None:
    _require_sound_reasons(session.state, action.skipped, dossier)
    if not _budget_left(dossier):
        return
    if session.state.started.brain in STRICT_BRAINS and not baseline_complete(session):
        raise ActionError("conclude_refused: stock has not been measured yet: measure it", code="conclude_refused")
    named = {skipped.family for skipped in action.skipped}
    missing = [family for family in untried_families(dossier.families) if family.family not in named]
    if missing:
        listed = "; ".join(f"{family.family} ({family.detail})" for family in missing)
        raise ActionError(
            f"conclude_refused: {_left_s(dossier):.0f} s of budget are left and these lever families are untried: "
            f"{listed}. Try them, or name each in `skipped` with a reason",
            code="conclude_refused",
        )


def _budget_left(dossier: Dossier) -> bool:
    """Room for one more candidate; before anything was launched nobody knows what one costs, so any time will do."""
    return room_for_candidate(dossier) if dossier.measured else _left_s(dossier) > 0


def _left_s(dossier: Dossier) -> float:
    return time_left_s(dossier) if dossier.measured else dossier.budget_s - dossier.elapsed_s


def _require_sound_reasons(state: RunState, skipped: Sequence[SkippedFamily], dossier: Dossier) -> None:
    # A conclusion that was cut off by a kill is drawn again: what it skipped may be skipped once more.
    open_families = [f.family for f in dossier.families if f.status in ("untried", "skipped")]
    seen: set[str] = set()
    for entry in skipped:
        if entry.family not in open_families:
            known = ", ".join(open_families) or "none"
            raise ActionError(f"skipped: {entry.family!r} is no untried family; untried: {known}", code="skipped")
        if entry.family in seen:
            raise ActionError(f"skipped: {entry.family!r} is named twice", code="skipped")
        seen.add(entry.family)
        unknown = [id_ for id_ in entry.evidence if id_ not in _known_ids(state)]
        if unknown:
            raise ActionError(f"skipped: {entry.family}: no evidence {', '.join(unknown)} in this run", code="skipped")
        if entry.disposition == "ruled_out" and not entry.evidence:
            message = f"skipped: {entry.family}: ruled_out needs the observations or candidates that rule it out"
            raise ActionError(message, code="skipped")


def _known_ids(state: RunState) -> frozenset[str]:
    return frozenset(_ids(state))


def _ids(state: RunState) -> Iterator[str]:
    yield from state.observations
    yield from state.candidates
    yield from (reading.id for reading in state.readings)
