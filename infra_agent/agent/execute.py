"""Carries out a brain's actions: checks each against scope and state, refuses with a precise error, or runs it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from infra_agent.agent.actions import (
    Action,
    ConcludeAction,
    ConsultAction,
    HypothesiseAction,
    MeasureAction,
    ParameterChange,
    ProposeAction,
    ProveAction,
    ReadAction,
    RecallAction,
    SearchAction,
    SearchCodeAction,
)
from infra_agent.agent.discipline import require_conduct
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.effects import refusal
from infra_agent.agent.propose_code import CodeOf, as_meant, inherited, make_code, planned, require_new
from infra_agent.agent.propose_transform import run_transform
from infra_agent.agent.reading import look
from infra_agent.agent.refusals import ActionError as ActionError
from infra_agent.agent.results import candidate_end
from infra_agent.agent.searching import run_search
from infra_agent.agent.view import build_dossier
from infra_agent.changes.change import STOCK, LaunchChange, apply, settings_digest
from infra_agent.errors import ConfigError
from infra_agent.harness.baseline import baseline_complete, measure_again, measure_stock
from infra_agent.harness.ladder import climb
from infra_agent.harness.local_probes import run_local
from infra_agent.harness.session import Session
from infra_agent.harness.transforms import PREFIX
from infra_agent.harness.verdicts import judge_candidate
from infra_agent.harness.windows import figure_probe
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState
from infra_agent.review.risk import derive_risk
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.model import ParameterValue

ID_PREFIX = {"agent": "C", "honesty": "S"}


def execute(session: Session, action: Action, lane: k.Lane, dossier: Dossier | None = None) -> None:
    """Run one action; ActionError when it is out of scope, against the rules of conduct or does not fit the state."""
    forbidden = refusal(action)
    if forbidden is not None:
        raise ActionError(forbidden)
    dossier = dossier if dossier is not None else build_dossier(session, lane)
    require_conduct(session, action, dossier)
    if isinstance(action, MeasureAction):
        _measure(session, action, lane)
    elif isinstance(action, ReadAction | SearchCodeAction | ConsultAction | RecallAction):
        look(session, action, dossier)
    elif isinstance(action, HypothesiseAction):
        _hypothesise(session, action)
    elif isinstance(action, ProposeAction):
        candidate = _propose(session, action, lane)
        climb(session, candidate, lane)
    elif isinstance(action, ProveAction):
        _require_screened(session, action.candidate, lane)
        judge_candidate(session, action.candidate, lane)
    elif isinstance(action, SearchAction):
        run_search(session, action, dossier.turn, lambda trial: _trial(session, trial, lane))
    elif isinstance(action, ConcludeAction) and lane == "agent":
        _skip(session, action)


def _trial(session: Session, action: ProposeAction | MeasureAction, lane: k.Lane) -> None:
    """One step of a search that was allowed as a whole."""
    if isinstance(action, ProposeAction):
        climb(session, _propose(session, action, lane), lane)
    else:
        _measure(session, action, lane)


def _skip(session: Session, action: ConcludeAction) -> None:
    for skipped in action.skipped:
        entry = k.FamilySkipped(**skipped.model_dump())
        if session.state.skipped.get(entry.family) != entry:
            session.ledger.append(entry)


def _measure(session: Session, action: MeasureAction, lane: k.Lane) -> None:
    known = [figure_probe(session.stack), *session.stack.probes]
    transform = action.probe.removeprefix(PREFIX) if action.probe.startswith(PREFIX) else None
    if action.probe not in known and transform is None:
        raise ActionError(f"no probe {action.probe!r}; known: {', '.join(known)}")
    target = session.state.best if action.target == "best" else action.target
    if target != STOCK and target not in session.state.candidates:
        raise ActionError(f"no candidate {target!r}; known: {', '.join([STOCK, *session.state.candidates])}")
    if transform is not None:
        run_transform(session, transform, target, lane)
        return
    if action.probe in session.stack.probes:
        _look(session, action.probe, target, lane)
        return
    if target == STOCK and not baseline_complete(session):
        measure_stock(session)
    else:
        measure_again(session, target, lane)


def _look(session: Session, name: str, target: str, lane: k.Lane) -> None:
    """A local probe of the stack's own."""
    try:
        found = run_local(session, name, target, lane)
    except ConfigError as error:
        raise ActionError(f"{error.message} ({error.where}); {error.hint}") from error
    for _, observation in found:
        text = f"{name} {observation.verdict}: {observation.summary}"
        session.narrator.line(f"  {target}", text, observation.cost.wall_s)


def _hypothesise(session: Session, action: HypothesiseAction) -> None:
    for prediction in action.predictions:
        if prediction.low > prediction.high:
            raise ActionError(f"prediction {prediction.metric}: low {prediction.low} is above high {prediction.high}")
    stated = k.HypothesisStated(
        id=f"H{len(session.state.hypotheses) + 1}",
        family=action.family,
        cause=action.cause,
        place=action.place,
        refuted_by=action.refuted_by,
        predictions=tuple(prediction.model_dump() for prediction in action.predictions),
        source=action.source,
        refuting_probe=action.refuting_probe,
    )
    session.ledger.append(stated)
    expected = ", ".join(f"x{p.low:g}-{p.high:g} {p.metric}" for p in action.predictions)
    session.narrator.line(stated.id, f"{stated.cause}; expected {expected}; refuted by: {stated.refuted_by}")


def _propose(session: Session, action: ProposeAction, lane: k.Lane) -> str:
    state = session.state
    if action.hypothesis and action.hypothesis not in state.hypotheses:
        raise ActionError(f"no hypothesis {action.hypothesis!r}; known: {', '.join(state.hypotheses) or 'none'}")
    base = state.best if action.base == "best" and lane == "agent" else STOCK
    before = session.settings_of(base)
    changes = tuple(_checked(session, change, before) for change in action.changes)
    if len({change.parameter for change in changes}) != len(changes):
        raise ActionError("the same parameter is set twice in one candidate")
    settings = apply(before, changes)
    code = inherited(session, base)
    diff = as_meant(session, action.diff, base) if action.diff is not None else None
    patches = code.patches if diff is None else planned(session, diff, base)[1]
    if lane == "agent":
        _require_not_declined(state, changes, patches)
    digest = settings_digest(state.started.stack_digest, settings, patches)
    twin = next((c for c in state.candidates.values() if c.proposed.digest == digest and c.proposed.lane == lane), None)
    if twin is not None:
        message = f"{twin.proposed.id} is the same configuration; it was tried already: {candidate_end(twin)}"
        raise ActionError(message, code="repeat")
    if lane == "agent" and not baseline_complete(session):
        raise ActionError("stock has not been measured yet: measure it first")
    id_ = f"{ID_PREFIX[lane]}{1 + sum(1 for c in state.candidates.values() if c.proposed.lane == lane)}"
    if diff is not None:
        code = make_code(session, diff, base, id_)
        require_new(session, id_, code, settings)
    return _record_candidate(session, action, lane, base, changes, settings, digest, id_, code)


def _require_not_declined(state: RunState, changes: tuple[LaunchChange, ...], patches: tuple[str, ...]) -> None:
    """What a person has rejected is not put before them again inside another candidate."""
    wanted = {(change.parameter, type(change.value), change.value) for change in changes}
    for candidate in state.candidates.values():
        declined, proposed = candidate.declined, candidate.proposed
        if declined is None or declined.decision != "reject":
            continue
        rejected = {(c["parameter"], type(c["value"]), c["value"]) for c in proposed.changes}
        if rejected <= wanted and (proposed.patch is None or proposed.patch.digest in patches):
            raise ActionError(f"a person rejected {proposed.title} ({declined.candidate}): {declined.reason}")


def _checked(session: Session, change: ParameterChange, before: Mapping[str, ParameterValue]) -> LaunchChange:
    """Refuse what the scope does not allow: names and values outside the stack's search space."""
    if not session.goal.scope.parameters:
        raise ActionError("the goal's scope allows no parameter changes")
    space = session.stack.space
    if change.parameter not in space:
        near = difflib.get_close_matches(change.parameter, space, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ActionError(f"parameter {change.parameter!r} is not in the stack's search space{hint}")
    allowed = space[change.parameter]
    if not any(type(change.value) is type(value) and change.value == value for value in allowed):
        listed = ", ".join(repr(value) for value in allowed)
        raise ActionError(f"{change.parameter} = {change.value!r} is not allowed; the search space has {listed}")
    return LaunchChange(parameter=change.parameter, value=change.value, before=before.get(change.parameter))


def _record_candidate(
    session: Session, action: ProposeAction, lane: k.Lane, base: str, changes: tuple[LaunchChange, ...],
    settings: dict[str, ParameterValue], digest: str, id_: str, code: CodeOf,
) -> str:  # fmt: skip
    table = {parameter.name: parameter for parameter in session.parameters}
    stock = session.stock_settings
    from_stock = [
        LaunchChange(parameter=name, value=value, before=stock.get(name))
        for name, value in settings.items()
        if stock.get(name) != value
    ]
    risk = derive_risk(from_stock, session.parameters, code.risk)
    families = {table[c.parameter].family for c in changes if c.parameter in table}
    families |= {_code_family(session, action)} if code.patch is not None else set()
    proposed = k.CandidateProposed(
        id=id_,
        title=" + ".join([*(_title(change, table) for change in changes), *filter(None, [code.title])]),
        hypothesis=action.hypothesis,
        base=base,
        changes=tuple({"parameter": c.parameter, "value": c.value, "before": c.before} for c in changes),
        settings=settings,
        digest=digest,
        risk=risk.risk.value,
        risk_reasons=risk.reasons,
        family=",".join(sorted(families)) or "unknown",
        lane=lane,
        patch=code.patch,
        patches=code.patches,
        tree=code.tree,
    )
    session.ledger.append(proposed)
    return proposed.id


def _code_family(session: Session, action: ProposeAction) -> str:
    """Code belongs to the family that its hypothesis names."""
    stated = session.state.hypotheses.get(action.hypothesis)
    return stated.family if stated is not None else "code"


def _title(change: LaunchChange, table: Mapping[str, Parameter]) -> str:
    title = table[change.parameter].title if change.parameter in table else change.parameter
    return title if change.value is True else f"{title} = {change.value}"


def _require_screened(session: Session, candidate_id: str, lane: k.Lane) -> None:
    candidate = session.state.candidates.get(candidate_id)
    if candidate is None or candidate.proposed.lane != lane:
        raise ActionError(f"no candidate {candidate_id!r}")
    if candidate.verdict is not None:
        raise ActionError(f"{candidate_id} was judged already: {candidate.verdict.decision}")
    if candidate.screened is None:
        raise ActionError(f"{candidate_id} has not been screened")
