"""Climbs the ladder with one candidate: static plan, engagement, answers, screen. A failure ends the climb.

Covered: one launch per climb, on which all rungs stand; before it one more for the engagement proof of a code change.
Not covered: the proof in blocks (`harness.proving`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from infra_agent.changes.change import LaunchChange
from infra_agent.errors import ConfigError, StackError
from infra_agent.harness.code_engagement import engage_code
from infra_agent.harness.engagement import judge_engagement
from infra_agent.harness.experiment.exact import is_exact
from infra_agent.harness.experiment.measuring import Wanted, measure_experiment
from infra_agent.harness.figure import beyond_log, limit_words, oriented_log, quantity_name, why_no_value
from infra_agent.harness.launching import Launch, launched, require_alive
from infra_agent.harness.local_probes import required_probes, run_local
from infra_agent.harness.measuring import Measured, collect_answers, measure_undisturbed, record, record_snapshot
from infra_agent.harness.memory import figure_in, figure_of, launch_logs, reference_answers, snapshot_of
from infra_agent.harness.session import Session
from infra_agent.harness.tolerance import near_tie_limit
from infra_agent.harness.windows import figure_rung
from infra_agent.judge.exact import screen_exact
from infra_agent.judge.plan import plan_blocks
from infra_agent.judge.screen import Outcome, screen
from infra_agent.judge.types import Estimate
from infra_agent.ledger import kinds as k
from infra_agent.review.risk import needs_answers
from infra_agent.stack.engines.base import RiskClass
from infra_agent.stack.engines.experiment import is_experiment
from probes.base import Cost, Json, Rung, Verdict
from probes.numeric.compare import compare
from probes.numeric.types import Answer

ASSUMED_SD_LOG = 0.05
"""Noise of one launch assumed until it was measured."""
CLEARLY_BEYOND_SDS = 3.0
"""One launch that lies so many assumed standard deviations beyond a constraint is not measured further."""
SHORT_ANSWERS = 0.9
"""A window with fewer tokens per request than this share of the base's says less: not the same work."""


class End(NamedTuple):
    """Why a climb ended below the judge."""

    decision: str
    cause: str
    rung: str
    reason: str
    evidence: tuple[str, ...] = ()
    estimate: k.EstimateData | None = None


def climb(session: Session, candidate_id: str, lane: k.Lane) -> None:
    """Run all rungs; the ledger then holds `screened`, or a verdict that says on which rung the climb ended."""
    started_s = session.clock()
    end = _climb(session, candidate_id, lane, started_s)
    if end is not None:
        give_verdict(session, candidate_id, end)


def give_verdict(session: Session, candidate_id: str, end: End) -> None:
    """Record a candidate's end and tell the user."""
    session.ledger.append(
        k.VerdictGiven.model_validate(
            {
                "candidate": candidate_id, "decision": end.decision, "cause": end.cause, "rung": end.rung,
                "estimate": end.estimate, "reason": end.reason, "evidence": end.evidence,
                "elapsed_s": session.budget.elapsed_s(),
            }
        )
    )  # fmt: skip
    session.narrator.line(f"  {candidate_id}", f"{session.title_of(candidate_id)}   {end.decision}: {end.reason}")


def screen_seed(session: Session, repeat: int = 0) -> int:
    """Measurement seed of screening launches: the same for all candidates, so that they do the same work."""
    return plan_blocks(session.seed, 1, start=repeat, stage="screen")[0].seed


def _climb(session: Session, candidate_id: str, lane: k.Lane, started_s: float) -> End | None:
    proposed = session.state.candidates[candidate_id].proposed
    try:
        session.engine.plan(session.stack, proposed.settings, port=1)
    except ConfigError as error:
        return End("invalid", "crashed", "static", error.message)
    try:
        end = _code(session, proposed, lane) if proposed.patch is not None else None
        if end is not None:
            return end
        if is_experiment(session.stack):
            return _run_rungs(session, proposed, lane, started_s)
        with launched(session, candidate_id, arm="candidate", purpose="climb", lane=lane, reporter=True) as launch:
            return _rungs(session, proposed, lane, launch, started_s)
    except StackError as error:
        reason = " · ".join([error.message, *error.lines[-1:]])
        return End("invalid", "crashed", "static", reason, _last_launch(session, candidate_id))


def _rungs(
    session: Session, proposed: k.CandidateProposed, lane: k.Lane, launch: Launch, started_s: float
) -> End | None:
    end = _engagement(session, proposed, lane, launch)
    checked = session.goal.constraints.answers_unchanged or needs_answers(RiskClass(proposed.risk))
    if end is None and (checked or proposed.patches):
        end = _answers(session, proposed, lane, launch)
    if end is not None:
        return end
    session.narrator.status(f"{proposed.id} {proposed.title}: screening")
    measured = measure_undisturbed(
        session, launch, candidate=proposed.id, lane=lane, purpose="screen", seed_of=partial(screen_seed, session)
    )
    return _screen(session, proposed, measured, started_s)


def _run_rungs(session: Session, proposed: k.CandidateProposed, lane: k.Lane, started_s: float) -> End | None:
    """An experiment: the probes that the stack requires, cheapest first, then one run."""
    end = _required(session, proposed, lane) if lane == "agent" else None
    if end is not None:
        return end
    session.narrator.status(f"{proposed.id} {proposed.title}: running it once")
    wanted = Wanted(proposed.id, "candidate", "climb", lane, screen_seed(session))
    measured = measure_experiment(session, wanted, "screen")
    end = _in_effect(session, proposed, lane, 0.0, snapshot_of(session.state, proposed.id))
    return end or _screen(session, proposed, measured, started_s)


def _required(session: Session, proposed: k.CandidateProposed, lane: k.Lane) -> End | None:
    """The first required probe that a candidate does not pass. What cannot be told is no pass."""
    ends = {Verdict.FAIL: "rejected", Verdict.INCONCLUSIVE: "inconclusive"}
    passed = []
    for name in required_probes(session.stack):
        for identity, observation in run_local(session, name, proposed.id, lane):
            told = f"{name} {observation.verdict}: {observation.summary}"
            session.narrator.line(f"  {proposed.id}", f"{proposed.title}   {told}")
            if observation.verdict is not Verdict.PASS:
                decision = ends.get(observation.verdict, "invalid")
                cause = "unclear" if decision == "inconclusive" else "infeasible"
                cause = "answers_changed" if observation.rung is Rung.NUMERIC and decision == "rejected" else cause
                return End(decision, cause, observation.rung.value, f"probe {told}", (identity,))
            passed.append(observation.rung)
    if needs_answers(RiskClass(proposed.risk)) and Rung.NUMERIC not in passed:
        reason = "no required numeric probe shows that the results stay the same"
        return End("inconclusive", "unclear", "numeric", reason)
    return None


def _code(session: Session, proposed: k.CandidateProposed, lane: k.Lane) -> End | None:
    """The changed lines must be executed. Of a file that is not Python it may stay open: a person decides on it."""
    observation, evidence = engage_code(session, proposed, lane)
    assert proposed.patch is not None
    unseen = observation.verdict is Verdict.INCONCLUSIVE and not any(f.endswith(".py") for f in proposed.patch.files)
    if observation.verdict is Verdict.PASS or unseen:
        session.narrator.line(f"  {proposed.id}", f"{proposed.title}   {observation.summary}")
        return None
    return End("invalid", "not_engaged", "static", observation.summary, (evidence,))


def _engagement(session: Session, proposed: k.CandidateProposed, lane: k.Lane, launch: Launch) -> End | None:
    """Every change must be in effect. The plain search does not know this rule: one effective change lets it pass."""
    started_s = session.clock()
    snapshot = record_snapshot(session, launch, candidate=proposed.id, lane=lane)
    return _in_effect(session, proposed, lane, session.clock() - started_s, snapshot, launch.id)


def _in_effect(
    session: Session, proposed: k.CandidateProposed, lane: k.Lane, wall_s: float, snapshot: Mapping[str, Json],
    launch: str = "",
) -> End | None:  # fmt: skip
    if not proposed.changes:
        return None
    state = session.state
    observation = judge_engagement(
        [LaunchChange(**change) for change in proposed.changes],
        session.parameters,
        snapshot_of(state, "stock"),
        snapshot_of(state, proposed.base),
        snapshot,
        Cost(wall_s=wall_s, launches=1),
    )
    evidence = record(session, observation, candidate=proposed.id, lane=lane, purpose="engagement", launch=launch)
    failed = observation.verdict is not Verdict.PASS
    partly = failed and lane == "honesty" and any(c["engaged"] for c in observation.detail.get("changes", ()))
    if observation.verdict is Verdict.PASS or partly:
        session.narrator.line(f"  {proposed.id}", f"{proposed.title}   {'partly ' if partly else ''}engaged")
        return None
    return End("invalid", "not_engaged", "static", observation.summary, (evidence,))


def _answers(session: Session, proposed: k.CandidateProposed, lane: k.Lane, launch: Launch) -> End | None:
    reference = reference_answers(session.state)
    if reference is None:
        return End("invalid", "answers_changed", "numeric", "stock's own answers are missing: nothing to compare with")
    session.narrator.status(f"{proposed.id} {proposed.title}: comparing answers")
    started_s = session.clock()
    answers = collect_answers(session, launch)
    require_alive(launch)
    cost = Cost(wall_s=session.clock() - started_s, requests=len(answers))
    oracle = session.oracle.get() if any(_differ(reference, answers)) else None
    limit = near_tie_limit(session, reference, oracle)
    oracle = session.oracle.get() if oracle is not None else None
    observation = compare(
        reference, answers, oracle=oracle, tolerance_nat=limit.nat, tolerance_why=limit.why, cost=cost
    )
    evidence = record(session, observation, candidate=proposed.id, lane=lane, purpose="answers", launch=launch.id)
    session.narrator.line(
        f"  {proposed.id}", f"{proposed.title}   answers {observation.verdict}: {observation.summary}"
    )
    if observation.verdict is Verdict.PASS:
        return None
    ends = {Verdict.FAIL: "rejected", Verdict.INCONCLUSIVE: "inconclusive"}
    if oracle is None and proposed.patches:
        # Nothing can weigh the difference, and code that only runs faster has no reason for one.
        ends[Verdict.INCONCLUSIVE] = "rejected"
    return End(ends.get(observation.verdict, "invalid"), "answers_changed", "numeric", observation.summary, (evidence,))


def _differ(reference: Sequence[Answer], answers: Sequence[Answer]) -> Iterator[bool]:
    """Texts that are equal need no oracle: it is started only for the others."""
    said = {answer.prompt_id: answer.text for answer in answers}
    return (said.get(wanted.prompt_id) != wanted.text for wanted in reference)


def _screen(session: Session, proposed: k.CandidateProposed, measured: Measured, started_s: float) -> End | None:
    if measured.value is None:
        reason = why_no_value(session.goal, measured.observation)
        return End("invalid", "crashed", figure_rung(session.stack), reason, (measured.id,))
    end = _constraints(session, proposed, measured) or _says_less(session, proposed, measured)
    if end is not None:
        return end
    estimate, outcome, reason = _compared(session, proposed, measured.id, measured.value)
    data = k.EstimateData.model_validate(estimate_data_fields(estimate))
    session.ledger.append(
        k.Screened(
            candidate=proposed.id, against=proposed.base, estimate=data, outcome=outcome, reason=reason,
            wall_s=session.clock() - started_s,
        )
    )  # fmt: skip
    session.narrator.line(
        f"  {proposed.id}",
        f"{proposed.title}   screen x{estimate.ratio:.2f} of {proposed.base}: {outcome}",
        session.clock() - started_s,
    )
    if outcome != "reject":
        return None
    cause = "slower" if estimate.high < 1 else "no_gain"
    return End("rejected", cause, figure_rung(session.stack), reason, (measured.id,), data)


def _compared(
    session: Session, proposed: k.CandidateProposed, measured: str, plain: float
) -> tuple[Estimate, Outcome, str]:
    """One launch beside the base's; figures that do not vary are compared on their own seed, exactly."""
    state, goal = session.state, session.goal
    value = figure_in(state.observations[measured], goal, stall_free=True) or plain
    if is_exact(state, goal):
        place = state.observations[measured].observation["where"].get("input")
        same = [
            m for m in state.standing if m.candidate == proposed.base and m.observation["where"].get("input") == place
        ]
        bases = [base for made in same if (base := figure_in(made, goal)) is not None]
        if bases:
            return screen_exact(oriented_log(goal, value) - oriented_log(goal, bases[-1]))
    base_logs = launch_logs(state, goal, proposed.base, stall_free=True)
    return screen(oriented_log(goal, value), base_logs, ASSUMED_SD_LOG)


def _constraints(session: Session, proposed: k.CandidateProposed, measured: Measured) -> End | None:
    """One window ends a candidate only where noise cannot explain how far it lies beyond; blocks judge the rest."""
    for limit in session.goal.constraints.limits:
        name = quantity_name(limit.metric, limit.statistic)
        found = measured.observation.quantity(name)
        value = None if found is None else found.value
        beyond = beyond_log(limit, value, figure_of(session.state, proposed.base, name))
        if beyond is not None and value is not None and beyond > CLEARLY_BEYOND_SDS * ASSUMED_SD_LOG:
            reason = f"{name} is {value:.4g}, {limit_words(limit)} is asked"
            return End("rejected", "infeasible", figure_rung(session.stack), reason, (measured.id,))
    return None


def _says_less(session: Session, proposed: k.CandidateProposed, measured: Measured) -> End | None:
    """Faster by saying less is not faster: the base's tokens per request are the work to be done."""
    now = measured.observation.quantity("mean_output_tokens")
    before = figure_of(session.state, proposed.base, "mean_output_tokens")
    if now is None or before is None or now.value >= SHORT_ANSWERS * before:
        return None
    reason = f"{now.value:.1f} tokens per request where {proposed.base} gives {before:.1f}: not the same work"
    return End("invalid", "answers_changed", "load", reason, (measured.id,))


def _last_launch(session: Session, candidate_id: str) -> tuple[str, ...]:
    ids = [launch.id for launch in session.state.launches.values() if launch.candidate == candidate_id]
    return tuple(ids[-1:])


def estimate_data_fields(estimate: Estimate) -> dict[str, object]:
    """A judge's estimate as the ledger stores it."""
    return {name: getattr(estimate, name) for name in k.EstimateData.model_fields}
