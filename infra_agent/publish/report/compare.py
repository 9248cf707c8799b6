"""Two runs side by side: what each found, and whether the two can be compared at all.

Covered: goal, stack, workload, outcome, gains, cost; differences that make a comparison void are named first.
Not covered: a test between runs. They were measured at other times, so their ratios to their own stock are compared.
"""

from __future__ import annotations

from infra_agent.publish import tables
from infra_agent.publish.report import format
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.rows import EstimateRow, Row


class Side(Row):
    """One run in a comparison."""

    run: str
    sentence: str
    best: str
    gain: EstimateRow | None
    goal_stock: float | None
    goal_best: float | None
    unit: str
    accepted: list[str]
    candidates: int
    total_s: float
    launches: int


class Comparison(Row):
    """`void`: what differs so that figures may not be set against each other. `overlap`: whether the intervals meet."""

    left: Side
    right: Side
    void: list[str]
    overlap: bool | None


def compare(left: Report, right: Report) -> Comparison:
    """Two reports side by side."""
    sides = (_side(left), _side(right))
    gains = [side.gain for side in sides]
    overlap = None
    if all(gain is not None and gain.low is not None and gain.high is not None for gain in gains):
        a, b = gains
        assert a is not None
        assert b is not None
        overlap = (a.low or 0) <= (b.high or 0) and (b.low or 0) <= (a.high or 0)
    return Comparison(left=sides[0], right=sides[1], void=_differing(left, right), overlap=overlap)


def compare_lines(found: Comparison) -> list[str]:
    """As Markdown, which a terminal reads as well."""
    sides = (found.left, found.right)
    rows: list[tuple[str, ...]] = [
        ("Outcome", *(tables.plain(side.sentence, 120) for side in sides)),
        ("Best", *(side.best for side in sides)),
        ("Gain over its own stock", *(format.estimate(side.gain) for side in sides)),
        ("Stock", *(_amount(side.goal_stock, side.unit) for side in sides)),
        ("Best measured", *(_amount(side.goal_best, side.unit) for side in sides)),
        ("Accepted", *("; ".join(tables.plain(title, 60) for title in side.accepted) or "none" for side in sides)),
        ("Candidates", *(str(side.candidates) for side in sides)),
        ("Cost", *(f"{format.duration(side.total_s)}, {side.launches} launches" for side in sides)),
    ]
    lines = tables.table(("", found.left.run, found.right.run), rows)
    lines += ["", *(f"Not comparable: {each}" for each in found.void)]
    if not found.void:
        said = {
            True: "the intervals meet: no difference shown",
            False: "the intervals do not meet",
            None: "no interval",
        }
        lines.append(f"Gains: {said[found.overlap]}.")
    return lines


def _amount(value: float | None, unit: str) -> str:
    return "not measured" if value is None else format.amount(value, unit)


def _side(report: Report) -> Side:
    row = next((row for row in report.before_after if row.is_goal), None)
    last = report.accepted[-1].estimate if len(report.accepted) == 1 else None
    return Side(
        run=report.run.id,
        sentence=report.outcome.sentence,
        best=report.best.candidate,
        gain=report.final.estimate if report.final is not None else last,
        goal_stock=row.stock.value if row is not None else None,
        goal_best=row.best.value if row is not None else None,
        unit=row.unit if row is not None else "",
        accepted=[accepted.title for accepted in report.accepted],
        candidates=len(report.candidates),
        total_s=report.cost.total_s,
        launches=report.cost.launches,
    )


def _differing(left: Report, right: Report) -> list[str]:
    """What is not the same in both, in words."""
    pairs = (
        ("goal metric", left.goal.metric, right.goal.metric),
        ("load", left.goal.load_text, right.goal.load_text),
        ("workload", left.stack.workload_sha256, right.stack.workload_sha256),
        ("stack", left.stack.digest, right.stack.digest),
    )
    found = [f"another {name}" for name, a, b in pairs if a != b]
    machines = [{k: v for k, v in r.environment.items() if k in ("cpu", "cores", "gpu", "gpus")} for r in (left, right)]
    return [*found, *(["another machine"] if machines[0] != machines[1] else [])]
