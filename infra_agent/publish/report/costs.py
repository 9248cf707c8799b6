"""What the run cost and what that is compared with: phases, launches, the honesty row, the final relaunch, the noise.

Not covered: prices of machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from infra_agent.ledger import kinds as k
from infra_agent.publish.report.candidates import block_rows
from infra_agent.publish.report.facts import Facts, estimate, finite, lane
from infra_agent.publish.report.model import (
    AgentCost,
    CostInfo,
    Final,
    Honesty,
    Noise,
    RungsSaved,
    SearchInfo,
    SpentKind,
    SpentRow,
)
from infra_agent.publish.report.rows import DifferenceRow, GuardRow
from infra_agent.stack.engines.experiment import is_experiment

FIRST_LOOK_BLOCKS = 3
_FREE_BRAINS = frozenset({"playbook", "search", "script"})
_SPENT: Mapping[SpentKind, tuple[str, ...]] = {
    "usd": ("usd",),
    "tokens": ("tokens_in", "tokens_out"),
    "launches": ("launches",),
    "disk_bytes": ("disk_bytes",),
    "gpu_s": ("gpu_s",),
    "turns": (),
}
"""Ceilings as the goal names them, and the kinds of spending that each sums up; turns are counted by actions."""
_SAVED_RULE = "candidates ended below the load rung x mean block cost x 3 blocks (the first look)"


def noise(facts: Facts) -> Noise | None:
    """The noise floor as last known."""
    known = facts.state.noise
    if known is None or finite(known.sd_log) is None or finite(known.mde_ratio) is None:
        return None
    return Noise(
        sd=known.sd_log,
        mde_ratio=known.mde_ratio,
        blocks=known.blocks,
        samples=known.samples,
        source=known.source,
        measured_at=known.measured_at,
        event=facts.seq(known),
    )


def honesty(facts: Facts) -> Honesty | None:
    """Plain search at equal screening time."""
    row = facts.state.honesty
    if row is None:
        return None
    return Honesty(
        method=row.method,
        wall_s=row.search_screen_s,
        trials=row.trials,
        decision=row.decision,
        best=row.best,
        shared_with=row.shared_with,
        estimate=estimate(row.estimate),
        reason=row.reason,
        event=facts.seq(row),
    )


def agent(facts: Facts) -> AgentCost:
    """Screening time of the brain's own candidates."""
    if facts.state.honesty is not None:
        return AgentCost(wall_s=facts.state.honesty.agent_screen_s)
    own = lane(facts.state.candidates.values(), "agent")
    return AgentCost(wall_s=sum(candidate.screened.wall_s for candidate in own if candidate.screened is not None))


def final(facts: Facts) -> Final | None:
    """The clean relaunch on fresh seeds."""
    measured = facts.state.final
    row = estimate(measured.estimate) if measured is not None else None
    if measured is None or row is None:
        return None
    blocks = [data for _, data in facts.of(k.BlockMeasured) if isinstance(data, k.BlockMeasured)]
    return Final(
        candidate=measured.candidate,
        arms=list(measured.arms),
        seeds=list(measured.seeds),
        estimate=row,
        stock_value=measured.stock_value,
        candidate_value=measured.candidate_value,
        difference=DifferenceRow(**measured.difference.model_dump()) if measured.difference is not None else None,
        guards=[GuardRow(**guard.model_dump()) for guard in measured.guards],
        blocks=block_rows(facts, [block for block in blocks if block.stage == "final"]),
        event=facts.seq(measured),
    )


def search(facts: Facts) -> SearchInfo:
    """Seeds used before the final relaunch."""
    if facts.state.final is not None:
        return SearchInfo(seeds=list(facts.state.final.search_seeds))
    blocks = [b for c in facts.state.candidates.values() for b in c.blocks if b.stage != "final"]
    return SearchInfo(seeds=sorted({block.seed for block in blocks}))


def cost(facts: Facts, extra: Mapping[str, Any]) -> CostInfo:
    """Time, launches, requests, tokens and money, and what the cheap rungs saved."""
    state = facts.state
    blocks = [data for _, data in facts.of(k.BlockMeasured) if isinstance(data, k.BlockMeasured)]
    costs = [made.observation.get("cost", {}) for made in state.observations.values()]
    free = state.started.brain in _FREE_BRAINS
    tokens, usd = state.spending.total("tokens_in", "tokens_out"), state.spending.total("usd")
    asked = tokens > 0 or usd > 0
    return CostInfo(
        total_s=state.elapsed_s,
        budget_s=state.started.budget_s,
        wall_s=_phases(facts),
        launches=len(state.launches),
        launches_by_purpose=dict(Counter(launch.purpose for launch in state.launches.values())),
        blocks=len(blocks),
        blocks_invalid=sum(1 for block in blocks if not block.valid),
        requests=sum(int(each.get("requests", 0)) for each in costs),
        observations_s=sum(finite(each.get("wall_s", 0.0)) or 0.0 for each in costs),
        brain_tokens=extra.get("brain_tokens", round(tokens) if asked or free else None),
        brain_usd=extra.get("brain_usd", usd if asked or free else None),
        spent=_spent(facts),
        rungs_saved=_saved(facts, blocks),
    )


def _spent(facts: Facts) -> list[SpentRow]:
    """Every kind that was used or has a ceiling."""
    state = facts.state
    caps, spending = state.started.goal.budget, state.spending
    rows = []
    for kind, parts in _SPENT.items():
        used = spending.total(*parts) if parts else float(state.turns)
        held = sum(amounts.get(part, 0.0) for amounts in spending.open.values() for part in parts)
        cap = getattr(caps, kind)
        if cap is not None or (used > 0 and parts):
            rows.append(SpentRow(kind=kind, spent=used, cap=cap, open=held))
    return rows


def _phases(facts: Facts) -> dict[str, float]:
    """Seconds of each phase; a phase entered twice is summed."""
    starts = [data for _, data in facts.of(k.PhaseStarted) if isinstance(data, k.PhaseStarted)]
    ends = [*(start.elapsed_s for start in starts), facts.state.elapsed_s][1:]
    result: dict[str, float] = {}
    for start, end in zip(starts, ends, strict=True):
        if start.name != "done":
            result[start.name] = result.get(start.name, 0.0) + max(0.0, end - start.elapsed_s)
    return result


def _saved(facts: Facts, blocks: list[k.BlockMeasured]) -> RungsSaved:
    figure = "micro" if is_experiment(facts.state.started.stack) else "load"
    ended = [
        candidate.proposed.id
        for candidate in facts.state.candidates.values()
        if candidate.verdict is not None and candidate.verdict.rung != figure and not candidate.blocks
    ]
    walls = [block.wall_s for block in blocks if block.wall_s > 0]
    mean = sum(walls) / len(walls) if walls else None
    return RungsSaved(
        candidates=ended,
        mean_block_s=mean,
        estimated_s=len(ended) * mean * FIRST_LOOK_BLOCKS if mean is not None else None,
        rule=_SAVED_RULE,
    )
