"""After the brain has concluded: the honesty row, the clean relaunch of the winner, and the run's verdict."""

from __future__ import annotations

import math

from infra_agent.agent.brains.search import SearchBrain
from infra_agent.agent.loop import pursue
from infra_agent.agent.outcome import (
    FINAL_ALPHA,
    STOCK_LAUNCHES,
    estimated,
    final_guards,
    final_is_settled,
    stock_seems_enough,
)
from infra_agent.agent.view import build_dossier, consent_s, screening_s
from infra_agent.changes.change import STOCK
from infra_agent.errors import BudgetSpent, StackError
from infra_agent.harness.baseline import measure_again
from infra_agent.harness.evidence import plain_difference, valid_blocks
from infra_agent.harness.experiment.exact import is_exact
from infra_agent.harness.ladder import estimate_data_fields
from infra_agent.harness.memory import launch_logs
from infra_agent.harness.proving import block_wall_s, measure_blocks
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import close_open_candidates, judge_candidate
from infra_agent.judge.exact import EXACT_REPEATS
from infra_agent.judge.plan import LOOKS, MAX_INDEX, plan_blocks
from infra_agent.judge.types import Estimate
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState


def run_honesty_row(session: Session) -> None:
    """A plain search over the same space for the agent's screening time, its winner before the same judge."""
    if session.state.honesty is not None or not session.stack.space:
        return
    agent_s = screening_s(session.state, "agent")
    if agent_s == 0:
        return
    session.narrator.line("Honesty", f"plain search over the same space for the same screening time, {agent_s:.0f} s")
    try:
        reason = pursue(session, SearchBrain(screen_s=agent_s, judges=False), "honesty")
        winner = _winner(session)
        if winner is not None and winner.verdict is None and _twin(session, winner) is None:
            judge_candidate(session, winner.proposed.id, "honesty", max_blocks=_agents_blocks(session))
    except BudgetSpent as error:
        _close_honesty(session, agent_s, f"cut short by the budget: {error.message}")
        raise
    _close_honesty(session, agent_s, reason)


def _close_honesty(session: Session, agent_s: float, reason: str) -> None:
    """The row is written however far the search came."""
    close_open_candidates(session, "honesty")
    winner = _winner(session)
    _record_honesty(session, agent_s, winner, _twin(session, winner) if winner else None, reason)


def run_final(session: Session) -> None:
    """Relaunch the winner clean beside stock, on seeds no earlier launch has used, until the goal is settled."""
    best = session.state.best
    if best == STOCK:
        _confirm_stock(session)
    if best == STOCK or session.state.final is not None:
        return
    settled: Estimate | None = None
    try:
        for count in (EXACT_REPEATS,) if is_exact(session.state, session.goal) else LOOKS[:3]:
            more_s = (count - settled.n) * block_wall_s(session) if settled is not None else 0.0
            if settled is not None and session.budget.remaining_s() < more_s + honesty_s(session) + consent_s(session):
                break
            found = measure_blocks(session, best, STOCK, "final", "final", count)
            settled = estimated(session.state, found.log_ratios, FINAL_ALPHA)
            if final_is_settled(session.state):
                break
    except StackError as error:
        session.ledger.append(k.Note(topic="warning", text=f"the final relaunch was broken off: {error.message}"))
    finally:
        if settled is not None:
            _record_final(session, best, settled)


def _confirm_stock(session: Session) -> None:
    """One launch is no proof that stock reaches an absolute target by itself: launch it until there are three."""
    while stock_seems_enough(session.state):
        launches = len(launch_logs(session.state, session.goal, STOCK))
        if launches >= STOCK_LAUNCHES:
            return
        measure_again(session, STOCK, "agent")
        if len(launch_logs(session.state, session.goal, STOCK)) == launches:
            return


def honesty_s(session: Session) -> float:
    """Budget that the honesty row will take: the agent's screening time and the first look's blocks."""
    return screening_s(session.state, "agent") + LOOKS[0] * block_wall_s(session)


def _agents_blocks(session: Session) -> int:
    """Equal effort: the search's best gets as many blocks as the agent's best needed, and at least the first look."""
    best = session.state.candidates.get(session.state.best)
    proved = [block for block in best.blocks if block.stage == "prove" and block.valid] if best else []
    return max(LOOKS[0], len(proved))


def _winner(session: Session) -> CandidateState | None:
    """The search's best promoted configuration, by the mean of its screening launches."""
    views = build_dossier(session, "honesty").candidates
    promoted = [view for view in views if view.screen == "promote" and view.screen_ratio is not None]
    best = max(promoted, key=lambda view: view.screen_ratio or 0.0, default=None)
    return session.state.candidates[best.id] if best else None


def _twin(session: Session, winner: CandidateState) -> CandidateState | None:
    """An agent's candidate of the same configuration that was judged against stock already."""
    for candidate in session.state.candidates.values():
        same = candidate.proposed.digest == winner.proposed.digest and candidate.proposed.lane == "agent"
        judged = any(look.stage == "prove" for look in candidate.looks)
        if same and candidate.proposed.base == STOCK and judged and candidate.verdict is not None:
            return candidate
    return None


def _record_honesty(
    session: Session, agent_s: float, winner: CandidateState | None, shared: CandidateState | None, reason: str
) -> None:
    source = shared or winner
    verdict = source.verdict if source else None
    trials = sum(1 for c in session.state.candidates.values() if c.proposed.lane == "honesty")
    row = k.HonestyRow(
        method="random sampling, then successive halving",
        agent_screen_s=agent_s,
        search_screen_s=screening_s(session.state, "honesty"),
        trials=trials,
        best=winner.proposed.title if winner else None,
        shared_with=shared.proposed.id if shared else None,
        decision=verdict.decision if verdict else "nothing found",
        estimate=verdict.estimate if verdict else None,
        reason=reason,
    )
    session.ledger.append(row)
    found = f"x{row.estimate.ratio:.2f}" if row.estimate else "nothing"
    session.narrator.line(
        "Honesty", f"plain search, {trials} trials in the same time: {found} ({row.best or 'no candidate'})"
    )


def _mean(session: Session, best: str, arm: str) -> float:
    """Geometric mean of one arm's figure over the final blocks."""
    blocks = valid_blocks(session.state, best, "final")
    values = [block.base_value if arm == "base" else block.candidate_value for block in blocks]
    present = [value for value in values if value is not None]
    return math.exp(sum(math.log(value) for value in present) / len(present))


def _record_final(session: Session, best: str, settled: Estimate) -> None:
    state = session.state
    blocks = valid_blocks(state, best, "final")[: settled.n]
    search = sorted({b.seed for c in state.candidates.values() for b in c.blocks if b.stage != "final"})
    windows = sum(made.purpose in ("baseline", "screen", "measure") for made in state.standing)
    screens = [block.seed for block in plan_blocks(session.seed, min(windows, MAX_INDEX), stage="screen")]
    final = k.FinalMeasured(
        candidate=best,
        arms=(STOCK, best),
        search_seeds=tuple(sorted({*search, *screens})),
        seeds=tuple(block.seed for block in blocks),
        estimate=k.EstimateData.model_validate(estimate_data_fields(settled)),
        stock_value=_mean(session, best, "base"),
        candidate_value=_mean(session, best, "candidate"),
        difference=plain_difference(blocks, FINAL_ALPHA) if settled.n >= LOOKS[0] else None,
        guards=tuple(
            k.GuardData(name=guard.name, state=guard.state, p=guard.p, reason=guard.reason)
            for guard in final_guards(state)
        ),
    )
    session.ledger.append(final)
    session.narrator.line(
        "Final",
        f"relaunched clean on fresh seeds: x{settled.ratio:.2f} [{settled.low:.2f}, {settled.high:.2f}] of stock",
    )
