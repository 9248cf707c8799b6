"""When are two runs the same? The one place that says so, for runs killed and resumed beside one that was not.

`decisions` is what a run decided and in which order, and `figures` the numbers its decisions rest on; neither depends
on time, on process ids or on how often the run was cut off. `repeated` names work that was paid for twice, and
`disorder` what no run may show however it went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState, RunState

MOST_LAUNCHES_AGAIN = 2
"""A crash may cost the unit under way, and the largest unit, a block, is two launches."""


def decisions(state: RunState) -> dict[str, Any]:
    """What was decided, in an order and a form that time does not touch."""
    return {
        "contract": state.started.model_dump(exclude={"run_id", "command", "environment", "walls"}),
        "walls": state.started.walls.get("mode"),
        "phases": [at.data.name for at in state.events if isinstance(at.data, k.PhaseStarted)],
        "actions": [(d.turn, d.action) for d in _data(state, k.ActionTaken)],
        "refused": [(d.turn, d.action, d.error) for d in state.refused],
        "hypotheses": [stated.model_dump() for stated in state.hypotheses.values()],
        "candidates": [_candidate(candidate) for candidate in state.candidates.values()],
        "best": state.best,
        "noise": (state.noise.source if state.noise else None),
        "honesty": _without(state.honesty, "agent_screen_s", "search_screen_s", "reason", "estimate"),
        "final": _without(state.final, "estimate", "stock_value", "candidate_value"),
        "notes": [(note.topic, note.text) for note in state.notes],
        "launched": sorted(
            {(x.candidate, x.arm, x.purpose, x.lane, repr(x.settings)) for x in state.launches.values()}
        ),
        "observed": sorted({(o.candidate, o.lane, o.purpose, o.observation["probe"]) for o in state.standing}),
        "outcome": (state.finished.outcome, state.finished.exit_code) if state.finished else None,
    }


def figures(state: RunState) -> dict[str, Any]:
    """The numbers behind the decisions. Equal only where figures are exact (`steady`)."""
    return {
        "blocks": {id: [_block_values(b) for b in c.blocks] for id, c in state.candidates.items()},
        "looks": {id: [look.estimate.model_dump() for look in c.looks] for id, c in state.candidates.items()},
        "screens": {id: c.screened.estimate.model_dump() for id, c in state.candidates.items() if c.screened},
        "verdicts": {id: _estimate(c.verdict) for id, c in state.candidates.items()},
        "reasons": {id: c.verdict.reason for id, c in state.candidates.items() if c.verdict},
        "noise": _without(state.noise),
        "honesty": _estimate(state.honesty),
        "final": _without(state.final),
        "sentence": state.finished.sentence if state.finished else None,
    }


def repeated(whole: RunState, resumed: RunState) -> list[str]:
    """Work that was done twice although its result was stored, and spending handed back; empty when there is none."""
    return [*_twice(resumed), *_launched_again(whole, resumed), *_handed_back(whole, resumed)]


def disorder(state: RunState) -> list[str]:
    """What no run may show: time that runs backwards, a launch without an end, a budget that shrinks."""
    times = [getattr(at.data, "elapsed_s", getattr(at.data, "spent_s", None)) for at in state.events]
    spent = [time for time in times if time is not None]
    negative = [at for at in state.events if getattr(at.data, "wall_s", 0.0) < 0]
    return [
        *(f"spent {late} s after {early} s" for early, late in pairwise(spent) if late < early),
        *(f"stamp {late} after {early}" for early, late in pairwise([at.ts for at in state.events]) if late < early),
        *(f"negative duration in {at.data.kind} {at.seq}" for at in negative),
        *(f"launch {id} has no end" for id in state.launches.keys() - state.launches_ended.keys()),
    ]


def _data(state: RunState, kind: type[Any]) -> list[Any]:
    return [at.data for at in state.events if isinstance(at.data, kind)]


def _candidate(c: CandidateState) -> dict[str, Any]:
    return {
        "proposed": c.proposed.model_dump(),
        "screened": (c.screened.against, c.screened.outcome) if c.screened else None,
        "blocks": [(b.stage, b.index, b.order, b.seed, b.base, b.valid) for b in c.blocks],
        "looks": [(look.stage, look.blocks, look.alpha, look.decision) for look in c.looks],
        "verdict": (c.verdict.decision, c.verdict.cause, c.verdict.rung) if c.verdict else None,
        "accepted": c.accepted.gate if c.accepted else None,
        "waiting": (c.waiting.risk, c.waiting.reasons) if c.waiting else None,
    }


def _block_values(block: k.BlockMeasured) -> tuple[Any, ...]:
    return block.stage, block.index, block.base_value, block.candidate_value


def _estimate(holder: Any) -> dict[str, Any] | None:
    return holder.estimate.model_dump() if holder is not None and holder.estimate is not None else None


def _without(data: k.EventData | None, *names: str) -> dict[str, Any] | None:
    return None if data is None else data.model_dump(exclude=set(names))


def _twice(state: RunState) -> Iterator[str]:
    """Results that exist once in any run."""
    results: Counter[tuple[Any, ...]] = Counter()
    for at in state.events:
        match at.data:
            case k.BlockMeasured() as block:
                results["block", block.candidate, block.stage, block.index] += 1
            case k.Looked() as look:
                results["look", look.candidate, look.stage, look.blocks] += 1
            case k.Screened() | k.VerdictGiven() | k.Accepted() | k.WaitingForApproval() as given:
                results[given.kind, given.candidate] += 1
            case k.HypothesisStated() as stated:
                results["hypothesis", stated.family, stated.cause, stated.source] += 1
            case k.ActionTaken() as action:
                results["action", action.turn] += 1
            case k.HonestyRow() | k.FinalMeasured() | k.RunFinished() as end:
                results[end.kind,] += 1
    yield from (f"{' '.join(map(str, what))} stands {count} times" for what, count in results.items() if count > 1)


def _handed_back(whole: RunState, resumed: RunState) -> Iterator[str]:
    """A crash may cost, never pay: what was set aside when it came stays spent."""
    for kind in whole.spending.used():
        before, after = whole.spending.total(kind), resumed.spending.total(kind)
        if after < before:
            yield f"{after} {kind} spent, {before} without a crash"
    left_open = len(resumed.spending.open)
    if left_open > resumed.sessions - 1:
        yield f"{left_open} reservations open after {resumed.sessions} sessions"


def _launched_again(whole: RunState, resumed: RunState) -> Iterator[str]:
    extra = len(resumed.launches) - len(whole.launches)
    allowed = MOST_LAUNCHES_AGAIN * (resumed.sessions - 1)
    if not 0 <= extra <= allowed:
        yield f"{extra} launches more than without a crash; {allowed} are allowed in {resumed.sessions} sessions"
