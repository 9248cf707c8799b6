"""Builds the Dossier from the run's state: what a brain sees is what the ledger says, nothing else."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from infra_agent.agent.calibration import calibration
from infra_agent.agent.dossier import (
    CandidateView,
    CodeView,
    Dossier,
    HypothesisView,
    PersonSaid,
    ProbeView,
    ProposalView,
)
from infra_agent.agent.families import Levers, family_views
from infra_agent.agent.view_parts import (
    action_views,
    observation_views,
    playbook_views,
    prediction_views,
    reading_views,
    stack_view,
)
from infra_agent.changes.change import STOCK
from infra_agent.changes.kernels import is_kernel
from infra_agent.harness.baseline import baseline_complete
from infra_agent.harness.code import patchable_files, why_no_code
from infra_agent.harness.experiment.exact import is_exact
from infra_agent.harness.figure import target_ratio
from infra_agent.harness.ladder import ASSUMED_SD_LOG
from infra_agent.harness.local_probes import rung_of
from infra_agent.harness.memory import figure_in, launch_logs
from infra_agent.harness.proving import block_wall_s
from infra_agent.harness.session import Session
from infra_agent.harness.transforms import PREFIX
from infra_agent.harness.windows import figure_probe
from infra_agent.judge.exact import EXACT_REPEATS
from infra_agent.judge.plan import LOOKS
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.library.transforms import transform_names

REPORT_S = 10.0
MOST_FILES = 200
"""What the `measure` action can run."""


def build_dossier(session: Session, lane: k.Lane) -> Dossier:
    """The dossier of a lane: the honesty lane sees its own candidates only."""
    state = session.state
    best = state.best if lane == "agent" else STOCK
    candidates = tuple(_candidate_view(session, c) for c in state.candidates.values() if c.proposed.lane == lane)
    signals = signals_of(state, best)
    code = code_view(session, best) if lane == "agent" else CodeView()
    return Dossier(
        goal=session.goal,
        concurrency=session.load.concurrency or 0,
        parameters=session.parameters,
        stock_settings=session.stock_settings,
        best=best,
        best_settings=session.settings_of(best),
        space=session.stack.space if session.goal.scope.parameters else {},
        signals=signals,
        measured=lane != "agent" or baseline_complete(session),
        noise_sd_log=noise_sd_log(state),
        goal_reached=goal_reached_so_far(session),
        hypotheses=tuple(_hypothesis_view(state, stated) for stated in state.hypotheses.values()),
        candidates=candidates,
        refusals=tuple(refused.error for refused in state.refused),
        elapsed_s=session.budget.elapsed_s(),
        budget_s=session.budget.limit_s,
        reserve_s=reserve_s(session),
        block_s=block_wall_s(session),
        climb_s=climb_s(state),
        seed=session.seed,
        lane=lane,
        turn=state.turns,
        launches_left=launches_left(session, lane),
        rejected_by_person=tuple(
            PersonSaid(c.declined.candidate, c.declined.decision, c.declined.reason)
            for c in state.candidates.values()
            if c.declined is not None
        ),
        code=code,
        noise_source=state.noise.source if state.noise is not None else "assumed",
        mde_ratio=state.noise.mde_ratio if state.noise is not None else None,
        mde_blocks=state.noise.blocks if state.noise is not None else 0,
        stack=stack_view(session),
        observations=observation_views(state, session.goal, lane),
        families=family_views(
            Levers(
                goal=session.goal,
                stack=session.stack,
                parameters=session.parameters,
                candidates=candidates,
                skipped=state.skipped,
                code=code,
            )
        ),
        readings=reading_views(session),
        actions=action_views(state),
        playbooks=playbook_views(session.goal, signals),
        calibration=calibration(state),
        figure_probe=figure_probe(session.stack),
        measurable=(figure_probe(session.stack), *session.stack.probes),
        **(_local_views(session, best) if lane == "agent" else {}),
    )


def _local_views(session: Session, best: str) -> dict[str, Any]:
    """Local probes and transforms: what may be asked for, what has been, and what came of it."""
    state, stack = session.state, session.stack
    looked = [made for made in state.standing if made.purpose == "probe"]
    of_best = {made.observation["probe"]: made for made in looked if made.candidate == best}
    asked = {name.removeprefix(PREFIX): made for name, made in of_best.items() if name.startswith(PREFIX)}
    return {
        "probes": tuple(
            ProbeView(
                name, rung_of(stack, name).value, tuple(m.candidate for m in looked if m.observation["probe"] == name)
            )
            for name in stack.probes
        ),
        "transforms": transform_names(stack.skills) if session.workspace is not None else (),
        "transformed": tuple(asked),
        "proposals": tuple(each for name, made in asked.items() for each in _proposals(name, made)),
        "refused_hypotheses": tuple(_refused(state)),
    }


def _proposals(name: str, made: k.ObservationMade) -> Iterator[ProposalView]:
    for row in made.observation.get("detail", {}).get("proposals", ()):
        if not row["refused"]:
            told = {key: row[key] for key in ("diff", "claim", "place", "refuted_by", "low", "high")}
            digest = hashlib.sha256(row["diff"].encode()).hexdigest()[:12]
            yield ProposalView(transform=name, digest=digest, **told)


def _refused(state: RunState) -> Iterator[str]:
    for refused in state.refused:
        with suppress(ValueError):
            action = json.loads(refused.action)
            if isinstance(action, dict) and action.get("kind") == "propose":
                yield str(action.get("hypothesis", ""))


def code_view(session: Session, best: str) -> CodeView:
    """The files that a diff may name, as they are in the best configuration."""
    reason = why_no_code(session.goal, session.stack, session.walls)
    if reason or session.workspace is None:
        return CodeView(closed=reason or "the run has no copy of the sources")
    files = patchable_files(session.workspace, session.state, best)
    names = tuple(source.name for source in session.workspace.sources)
    kernels = any(map(is_kernel, files))
    return CodeView(closed="", sources=names, files=files[:MOST_FILES], total=len(files), kernels=kernels)


def noise_sd_log(state: RunState) -> float:
    """Noise of one launch as known now."""
    return state.noise.sd_log if state.noise is not None else ASSUMED_SD_LOG


def signals_of(state: RunState, candidate: str) -> dict[str, float | str | bool]:
    """Signals of a configuration's observations, newer ones over older ones."""
    merged: dict[str, float | str | bool] = {}
    for made in state.standing:
        if made.candidate == candidate and made.purpose in ("baseline", "engagement", "screen", "measure", "probe"):
            merged.update(made.observation.get("signals", {}))
    return merged


def goal_reached_so_far(session: Session) -> bool:
    """Whether the accepted best's proved ratio against stock, multiplied along its bases, reaches the target."""
    state = session.state
    ratio, name = 1.0, state.best
    while name != STOCK:
        candidate = state.candidates[name]
        estimate = candidate.verdict.estimate if candidate.verdict else None
        if estimate is None:
            return False
        ratio, name = ratio * estimate.ratio, candidate.proposed.base
    values = [v for v in (figure_in(made, session.goal) for made in _stock_windows(state)) if v is not None]
    return bool(values) and ratio >= target_ratio(session.goal, sum(values) / len(values))


def reserve_s(session: Session) -> float:
    """Budget kept for the honesty row (screening and judging, where there is a space to search), the final relaunch, a
    person's yes and the report.
    """
    searched = bool(session.stack.space)
    tail_s = (1 + searched) * first_look(session) * block_wall_s(session) + REPORT_S
    return (screening_s(session.state, "agent") if searched else 0.0) + tail_s + consent_s(session)


def first_look(session: Session) -> int:
    """Blocks after which a relaunch is first looked at; fewer where figures do not vary."""
    return EXACT_REPEATS if is_exact(session.state, session.goal) else LOOKS[0]


def consent_s(session: Session) -> float:
    """Budget kept for the relaunch that follows when a person approves what waits."""
    return first_look(session) * block_wall_s(session) if session.state.open_gates else 0.0


def launches_left(session: Session, lane: k.Lane) -> float | None:
    """Engine starts that a lane may still use. Kept back: a first look for the lane's best; from the brain's own work
    also the first look of the final relaunch and as many climbs for the honesty row as it has taken itself.
    """
    left = session.budget.left("launches")
    if left is None:
        return None
    look = 2 * LOOKS[0]
    kept = look if lane != "agent" else 2 * look + len(_climbs(session.state, _candidates(session.state, "agent")))
    return max(0.0, left - kept)


def screening_s(state: RunState, lane: k.Lane) -> float:
    """Wall time of a lane's climbs, those that ended below the screen included."""
    climbs = _climbs(state, _candidates(state, lane))
    return sum(ended.wall_s for ended in state.launches_ended.values() if ended.id in climbs)


def _candidates(state: RunState, lane: k.Lane) -> set[str]:
    return {c.proposed.id for c in state.candidates.values() if c.proposed.lane == lane}


def _climbs(state: RunState, candidates: Collection[str]) -> set[str]:
    """Climbs of these candidates that count: one that was cut off and made again is time lost, not time spent."""
    climbs = (launch for launch in state.launches.values() if launch.purpose == "climb")
    return {launch.id for launch in climbs if launch.candidate in candidates and launch.id not in state.void}


def climb_s(state: RunState) -> float:
    """Mean wall time of a climb so far, or that of the baseline launch."""
    whole = [e for e in state.launches_ended.values() if e.outcome == "stopped"]
    climbs = [e.wall_s for e in whole if state.launches[e.id].purpose == "climb"]
    others = [e.wall_s for e in whole]
    chosen = climbs or others
    return sum(chosen) / len(chosen) if chosen else 0.0


def _stock_windows(state: RunState) -> list[k.ObservationMade]:
    return [made for made in state.standing if made.candidate == STOCK]


def _hypothesis_view(state: RunState, stated: k.HypothesisStated) -> HypothesisView:
    ends = [
        candidate.verdict.decision
        for candidate in state.candidates.values()
        if candidate.proposed.hypothesis == stated.id and candidate.verdict is not None
    ]
    status = "supported" if "accepted" in ends else "refuted" if "rejected" in ends else "open"
    return HypothesisView(
        id=stated.id,
        family=stated.family,
        cause=stated.cause,
        source=stated.source,
        status=status,
        place=stated.place,
        refuted_by=stated.refuted_by,
        refuting_probe=stated.refuting_probe,
        predictions=prediction_views(state, stated),
    )


def _candidate_view(session: Session, candidate: CandidateState) -> CandidateView:
    proposed, screened, verdict = candidate.proposed, candidate.screened, candidate.verdict
    declined = candidate.declined
    proved = verdict.estimate.ratio if verdict and verdict.estimate and verdict.cause == "proved" else None
    ratio, measurements = _screen_ratio(session, candidate)
    changes: Mapping[str, bool | int | float | str] = {c["parameter"]: c["value"] for c in proposed.changes}
    return CandidateView(
        id=proposed.id,
        hypothesis=proposed.hypothesis,
        family=proposed.family,
        base=proposed.base,
        changes=changes,
        risk=proposed.risk,
        status=_status(candidate),
        reason=declined.reason if declined else verdict.reason if verdict else screened.reason if screened else "",
        screen=screened.outcome if screened else None,
        screen_ratio=ratio,
        measurements=measurements,
        proved_ratio=proved,
        cost_s=_cost_s(session.state, proposed.id),
        patched=proposed.patch.files if proposed.patch is not None else (),
    )


def _status(candidate: CandidateState) -> str:
    if candidate.declined is not None:
        return "rejected_by_person" if candidate.declined.decision == "reject" else "changes_requested"
    if candidate.waiting is not None and candidate.accepted is None:
        return "approved" if candidate.approved is not None else "waiting"
    if candidate.verdict is not None:
        applied = candidate.verdict.decision != "accepted" or candidate.accepted is not None
        return candidate.verdict.decision if applied else "proved"
    return "screened" if candidate.screened else "proposed"


def _screen_ratio(session: Session, candidate: CandidateState) -> tuple[float | None, int]:
    """Geometric mean over a candidate's screening launches, against its base's launches."""
    logs = launch_logs(session.state, session.goal, candidate.proposed.id, ("screen", "measure"))
    base = launch_logs(session.state, session.goal, candidate.proposed.base)
    if candidate.screened is None or not logs or not base:
        return None, len(logs)
    return math.exp(sum(logs) / len(logs) - sum(base) / len(base)), len(logs)


def _cost_s(state: RunState, candidate: str) -> float:
    climbs = _climbs(state, (candidate,))
    return sum(ended.wall_s for ended in state.launches_ended.values() if ended.id in climbs)
