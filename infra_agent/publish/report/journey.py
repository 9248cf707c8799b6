"""How the run went: candidates as points in time with their fates, the best so far, what rungs cost, attribution.

Covered: times in seconds of budget, ratios to stock, seconds of each rung of the ladder and how many candidates ended
there, the gain of each accepted change when it was added, and without it where such a configuration was measured.
Not covered: drawing (`charts_journey`).
"""

from __future__ import annotations

from collections.abc import Mapping

from infra_agent.changes.change import STOCK
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState
from infra_agent.publish.report.candidates import end_of
from infra_agent.publish.report.facts import Facts, estimate
from infra_agent.publish.report.journey_rows import AttributionRow, JourneyPoint, RungCost
from infra_agent.publish.report.rows import EstimateRow

RUNGS = ("static", "numeric", "micro", "trace", "events", "load")


def journey(facts: Facts) -> list[JourneyPoint]:
    """A point for every candidate of the brain that ended, in order of time."""
    points, best = [], 1.0
    totals: dict[str, float] = {STOCK: 1.0}
    ended = [c for c in facts.state.candidates.values() if c.proposed.lane == "agent" and c.verdict is not None]
    for candidate in sorted(ended, key=lambda c: (c.verdict.elapsed_s if c.verdict else 0.0, c.seq)):
        verdict = candidate.verdict
        assert verdict is not None
        found = estimate(verdict.estimate)
        base = totals.get(candidate.proposed.base, 1.0)
        ratio = found.ratio * base if found is not None else None
        end = end_of(candidate)
        if end == "kept" and ratio is not None:
            totals[candidate.proposed.id] = ratio
            best = ratio
        points.append(
            JourneyPoint(
                candidate=candidate.proposed.id,
                title=candidate.proposed.title,
                at_s=verdict.elapsed_s,
                ratio=ratio if ratio is not None and ratio > 0 else None,
                best=best,
                end=end,
                event=candidate.verdict_seq or facts.seq(verdict),
            )
        )
    return points


def rung_costs(facts: Facts) -> list[RungCost]:
    """Seconds inside probes of each rung, and the candidates whose climb ended there."""
    seconds: dict[str, float] = {}
    counts: dict[str, int] = {}
    for made in facts.state.observations.values():
        rung = str(made.observation.get("rung", ""))
        wall = made.observation.get("cost", {}).get("wall_s", 0.0)
        seconds[rung] = seconds.get(rung, 0.0) + (float(wall) if isinstance(wall, int | float) else 0.0)
        counts[rung] = counts.get(rung, 0) + 1
    ended: dict[str, list[str]] = {}
    for candidate in facts.state.candidates.values():
        if candidate.verdict is not None:
            ended.setdefault(candidate.verdict.rung, []).append(candidate.proposed.id)
    names = [*RUNGS, *(name for name in (*seconds, *ended) if name and name not in RUNGS)]
    return [
        RungCost(rung=name, wall_s=seconds.get(name, 0.0), observations=counts.get(name, 0), ended=ended.get(name, []))
        for name in dict.fromkeys(names)
        if name in seconds or name in ended
    ]


def attribution(facts: Facts) -> list[AttributionRow]:
    """Each accepted change: what it added when it was put on top, and the best without it, where that was measured."""
    state = facts.state
    rows = []
    for candidate in state.candidates.values():
        if candidate.accepted is None or candidate.verdict is None:
            continue
        without = _without(facts, candidate)
        rows.append(
            AttributionRow(
                candidate=candidate.proposed.id,
                title=candidate.proposed.title,
                added=estimate(candidate.verdict.estimate),
                left_out=without[0] if without else "",
                left_out_ratio=without[1] if without else None,
                event=candidate.verdict_seq or candidate.seq,
            )
        )
    return rows


def _without(facts: Facts, candidate: CandidateState) -> tuple[str, EstimateRow] | None:
    """A measured configuration that is the best without this change, and its ratio to its own base."""
    state = facts.state
    if state.best == STOCK or len(candidate.proposed.changes) == 0:
        return None
    best = state.candidates[state.best].proposed
    wanted = dict(best.settings)
    for change in candidate.proposed.changes:
        name, before = str(change.get("parameter", "")), change.get("before")
        if before is None:
            wanted.pop(name, None)
        else:
            wanted[name] = before
    for other in state.candidates.values():
        same = _same(other.proposed, wanted, best.patches)
        found = estimate(other.verdict.estimate) if same and other.verdict is not None else None
        if found is not None and other.proposed.id != best.id and other.proposed.base == STOCK:
            return other.proposed.id, found
    return None


def _same(proposed: k.CandidateProposed, settings: Mapping[str, object], patches: tuple[str, ...]) -> bool:
    return dict(proposed.settings) == dict(settings) and proposed.patches == patches
