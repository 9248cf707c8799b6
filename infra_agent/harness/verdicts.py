"""From a screened candidate to its end: blocks, verdict, and the gate."""

from __future__ import annotations

from infra_agent.errors import BudgetSpent, StackError
from infra_agent.harness.evidence import Stage
from infra_agent.harness.experiment.exact import is_exact
from infra_agent.harness.ladder import End, estimate_data_fields, give_verdict
from infra_agent.harness.noise import record_noise
from infra_agent.harness.proving import CANDIDATE_FAULT, DISTURBED, block_wall_s, look_at
from infra_agent.harness.session import Session
from infra_agent.harness.windows import figure_rung
from infra_agent.judge.decide import MAX_BLOCKS
from infra_agent.judge.exact import EXACT_BLOCKS
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.types import Look
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import gate_event
from infra_agent.review.risk import GATED
from infra_agent.stack.engines.base import RiskClass


def judge_candidate(session: Session, candidate_id: str, lane: k.Lane, max_blocks: int = MAX_BLOCKS) -> None:
    """Measure blocks until a look decides; then the verdict, and the gate for an accepted one."""
    proposed = session.state.candidates[candidate_id].proposed
    stage: Stage = "honesty" if lane == "honesty" else "prove"
    exact = is_exact(session.state, session.goal)
    plan = f"{EXACT_BLOCKS} blocks, two of them equal" if exact else f"looks at {', '.join(map(str, LOOKS))} blocks"
    title = f"{candidate_id} {proposed.title} against {proposed.base}"
    session.narrator.line("Proving", f"{title}: {plan}, about {block_wall_s(session):.0f} s each")
    try:
        look = look_at(session, candidate_id, proposed.base, stage, lane, max_blocks)
    except StackError as error:
        give_verdict(session, candidate_id, _failed_blocks(session, candidate_id, stage, error))
        return
    except BudgetSpent as error:
        give_verdict(
            session, candidate_id, End("inconclusive", "out_of_budget", figure_rung(session.stack), error.message)
        )
        raise
    give_verdict(session, candidate_id, _end(session, candidate_id, stage, look))
    settle(session, candidate_id)


def settle(session: Session, candidate_id: str) -> None:
    """What follows a verdict: the noise floor that its blocks showed, and the gate. Twice does nothing."""
    candidate = session.state.candidates[candidate_id]
    if candidate.proposed.lane != "agent":
        return
    judged = any(block.stage == "prove" for block in candidate.blocks)
    since = [at.data for at in session.state.events if at.seq > (candidate.verdict_seq or 0)]
    if judged and not any(isinstance(data, k.NoiseKnown) for data in since):
        record_noise(session)
    open_gate(session, candidate_id)


def _end(session: Session, candidate_id: str, stage: Stage, look: Look) -> End:
    decision = look.decision.value if look.decision is not None else "inconclusive"
    blocks = [b for b in session.state.candidates[candidate_id].blocks if b.stage == stage and b.valid]
    evidence = tuple(o for block in blocks for o in (block.base_observation, block.candidate_observation) if o)
    estimate = k.EstimateData.model_validate(estimate_data_fields(look.estimate))
    bad = [b for b in session.state.candidates[candidate_id].blocks if b.stage == stage and not b.valid]
    futile = "; stopped early: no gain in sight" if look.decision is None else ""
    again = f"; {len(bad)} blocks were not valid and measured again, e.g. {bad[-1].reason}" if bad else ""
    return End(
        decision, look.cause or "unclear", figure_rung(session.stack), look.reason + futile + again, evidence, estimate
    )


def _failed_blocks(session: Session, candidate_id: str, stage: Stage, error: StackError) -> End:
    """Blocks that fail because of the base, or were disturbed from outside, say nothing about the candidate."""
    bad = [b for b in session.state.candidates[candidate_id].blocks if b.stage == stage and not b.valid]
    rung = figure_rung(session.stack)
    if bad and bad[-1].reason.startswith(DISTURBED):
        return End("inconclusive", "unclear", rung, f"{error.message}; {error.hint}" if error.hint else error.message)
    if any(block.reason.startswith(CANDIDATE_FAULT) for block in bad):
        return End("invalid", "crashed", rung, error.message)
    return End("inconclusive", "unclear", rung, f"the base could not be measured beside it: {error.message}")


def open_gate(session: Session, candidate_id: str) -> None:
    """Accept a proved candidate at once, or let it wait when its class is a person's to decide. Twice does nothing.

    One that was proved on another base than today's best is neither: it is proved again on the best (`agent.restack`).
    """
    candidate = session.state.candidates[candidate_id]
    proved = candidate.verdict is not None and candidate.verdict.decision == "accepted"
    passed = candidate.accepted is not None or candidate.waiting is not None
    if not proved or passed or candidate.proposed.lane != "agent":
        return
    risk = RiskClass(candidate.proposed.risk)
    elapsed_s = session.budget.elapsed_s()
    if risk in GATED:
        session.ledger.append(gate_event(session.run_dir, session.state, candidate_id))
        reasons = "; ".join(candidate.proposed.risk_reasons)
        session.narrator.line("Waiting", f"{candidate_id} needs a person's approval: {reasons}")
        return
    best = session.state.best
    if candidate.proposed.base != best:
        # Applied as it was measured it would take back what has become the best since.
        session.narrator.line(
            "Later", f"{candidate_id} was proved on {candidate.proposed.base}, the best is now {best}"
        )
        return
    gate = f"class {risk.value}: no approval needed"
    session.ledger.append(k.Accepted(candidate=candidate_id, gate=gate, elapsed_s=elapsed_s))
    minutes, seconds = divmod(int(elapsed_s), 60)
    session.narrator.line(
        "Accepted", f"{candidate_id} {candidate.proposed.title}, {minutes} min {seconds:02d} s after the start"
    )


def close_open_candidates(session: Session, lane: k.Lane) -> None:
    """Give every screened but unproved candidate of a lane its end: inconclusive, with what a proof would take."""
    for candidate in session.state.candidates.values():
        if candidate.proposed.lane == lane and candidate.verdict is None:
            screened = candidate.screened
            if screened is None:
                end = End("inconclusive", "out_of_budget", "static", "not climbed before the run ended")
            else:
                reason = f"not taken to the judge: {screened.reason}"
                end = End("inconclusive", "unclear", figure_rung(session.stack), reason, (), screened.estimate)
            give_verdict(session, candidate.proposed.id, end)
