"""A report as Markdown: the nine questions in the page's order, for terminals, wikis and mail.

Covered: every question with its main facts. Not covered: drawings, single blocks, all observations (HTML and JSON).
"""

from __future__ import annotations

from infra_agent.publish import tables
from infra_agent.publish.report import format
from infra_agent.publish.report.html import QUESTIONS
from infra_agent.publish.report.model import Report


def markdown(report: Report) -> str:
    """The document."""
    makers = (_met, _decide, _changed, _why, _tried, _search, _gaps, _reproduce, _cost)
    lines = [f"# {tables.plain(report.outcome.sentence)}", "", f"Asked: {tables.plain(report.goal.text)}"]
    for number, (question, make) in enumerate(zip(QUESTIONS, makers, strict=True), start=1):
        lines += ["", f"## {number}. {question}", "", *make(report)]
    head = f"{report.ledger.head_seq}:{report.ledger.head_hash}"
    return "\n".join([*lines, "", f"Run {report.run.id}, ledger head {tables.code(head)}."]) + "\n"


def _met(report: Report) -> list[str]:
    lines = [f"{tables.plain(report.goal.target_text)} · {tables.plain(report.goal.load_text)}"]
    if report.final is not None:
        e = report.final.estimate
        lines.append(f"Fresh seeds: {format.estimate(e)} over {e.n} blocks ({tables.plain(e.method)}).")
    if report.noise is not None:
        lines.append(f"Smallest provable gain here: {format.percent_above(report.noise.mde_ratio)}.")
    lines.append(f"Answers: {report.answers.verdict.replace('_', ' ')}.")
    return [*lines, "", *tables.before_after(report.before_after)] if report.before_after else lines


def _decide(report: Report) -> list[str]:
    lines = [
        f"- {row.candidate} ({row.risk}) {tables.plain(row.title)}: {format.estimate(row.estimate)}, "
        f"{tables.code(row.command)}"
        for row in report.decisions
    ]
    return lines or ["Nothing. No proved change waits for approval."]


def _changed(report: Report) -> list[str]:
    lines = []
    for row in report.accepted:
        lines.append(f"- {row.candidate} {tables.plain(row.title)}: {format.estimate(row.estimate)}")
        lines += [f"  - {tables.code(format.change(change))}" for change in row.changes]
        lines.append(f"  - undo: {tables.plain(row.undo.text)}")
        if row.patch is not None:
            lines += ["", *tables.block(row.patch.diff, "diff"), ""]
    return lines or ["Nothing was changed."]


def _why(report: Report) -> list[str]:
    lines = [
        f"- {claim.kind}: {tables.plain(claim.statement)} {format.estimate(claim.estimate)}" for claim in report.claims
    ]
    for row in report.hypotheses:
        predicted = f"{row.predicted.low:g} to {row.predicted.high:g}" if row.predicted is not None else "none"
        measured = format.estimate(row.measured) if row.measured is not None else "not measured"
        lines.append(f"- {row.id} {tables.plain(row.cause)}: predicted {predicted}, {measured}")
    return lines or ["No effect was decided by paired blocks, so nothing is claimed."]


def _tried(report: Report) -> list[str]:
    return tables.tried(report) or ["Nothing else was tried."]


def _search(report: Report) -> list[str]:
    row = report.honesty_row
    if row is None:
        return ["Plain search was not run."]
    return [f"{tables.plain(row.method)}: {format.estimate(row.estimate)} in {row.trials} trials ({row.decision})."]


def _gaps(report: Report) -> list[str]:
    return [f"- {tables.plain(row.what)}: {tables.plain(row.reason)}" for row in report.not_measured] or [
        "Nothing known."
    ]


def _reproduce(report: Report) -> list[str]:
    return tables.block("\n".join(report.reproduce), "sh")


def _cost(report: Report) -> list[str]:
    cost = report.cost
    lines = [f"{format.duration(cost.total_s)} of {format.duration(cost.budget_s)}, {cost.launches} launches."]
    rows = [(row.rung, f"{row.wall_s:.1f}", str(len(row.ended))) for row in report.rung_costs]
    return [*lines, "", *tables.table(("Rung", "Seconds", "Ended here"), rows)] if rows else lines
