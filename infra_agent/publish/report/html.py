"""report.html and report.json from one Report, written so that a reader never sees half a file.

Covered: one self-contained page (no script, no request, content security policy), every figure marked with the
observation or event it comes from, foreign text inert.
Not covered: what the figures are (build.py); model text is never compiled as a template.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from infra_agent.publish.report import charts, charts_journey, format
from infra_agent.publish.report.facts import is_goal_metric, is_headline
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.rows import BeforeAfter, CandidateRow
from infra_agent.redact.masker import NO_SECRETS, Masker

_BADGES = {
    "met": "Goal met",
    "not_met": "Goal not met",
    "waiting": "Waiting for approval",
    "budget_spent": "Budget spent",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
    "running": "Not finished",
}
QUESTIONS = (
    "Was the goal met, by how much, how sure, and against what noise?",
    "What must I decide?",
    "What changed exactly, and how do I undo it?",
    "Why do you believe that this is the cause?",
    "What else was tried and why did it fail?",
    "What would plain search have found?",
    "What was not measured?",
    "How do I reproduce each figure?",
    "What did it cost (time, launches, tokens, money), and what did the cheap rungs save?",
)
MOST_ROWS = 300
"""Rows of a long table shown in the page; report.json has them all."""
_MOST_CHARTED = 40
_MOST_BARS = 6


def write_report(run_dir: Path, report: Report, masker: Masker = NO_SECRETS) -> tuple[Path, Path]:
    """Write report.html and report.json into the run directory, each replaced as a whole; returns their paths."""
    html_path, json_path = run_dir / "report.html", run_dir / "report.json"
    replace_file(json_path, to_json(report, masker))
    replace_file(html_path, masker.text(render(report)))
    return html_path, json_path


def to_json(report: Report, masker: Masker = NO_SECRETS) -> str:
    """The report as JSON. ASCII only, so that no text in it can act on a terminal."""
    return json.dumps(masker.value(report.model_dump(mode="json")), indent=2, allow_nan=False) + "\n"


def render(report: Report) -> str:
    """The report as one HTML page."""
    sources = _Sources(report)
    environment = _environment()
    environment.globals.update({"num": sources.number, "src": sources.attribute, "f": format})
    template = environment.get_template("report.html.j2")
    drawings = _drawings(report, sources)
    return template.render(
        r=report, badge=_BADGES[report.outcome.code], questions=QUESTIONS, most=MOST_ROWS, goal_name=_goal_name(report),
        headline=is_headline,
        accepted_base=_accepted_base(report), **drawings,
    )  # fmt: skip


def _accepted_base(report: Report) -> str:
    """What the last accepted candidate was measured against."""
    last = report.accepted[-1].candidate if report.accepted else ""
    return next((row.base for row in report.candidates if row.id == last), "")


def _goal_name(report: Report) -> str:
    """The goal's metric as a quantity of stock is named; empty when stock has none."""
    names = (row.name for row in report.baseline.metrics)
    return next((name for name in names if is_goal_metric(name, report.goal)), "")


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("infra_agent.publish.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def inert(value: Any) -> Any:
    """Every value that reaches the page and is no markup of our own loses control and direction characters."""
    if isinstance(value, Markup):
        return value
    return format.clean(value) if isinstance(value, str) else value


class _Sources:
    """Turns source ids into attributes: data-observation for observations, data-event for everything else."""

    def __init__(self, report: Report) -> None:
        self._observations = {row.id for row in report.observations}
        self._head = report.ledger.head_seq
        self._launches = {row.id: row.event for row in report.failed_launches}

    def attribute(self, where: int | str | Sequence[str] | None) -> Markup:
        """The attribute for an event number, one id or several; the ledger's head when nothing is known."""
        if isinstance(where, int):
            return Markup('data-event="{}"').format(where)
        ids = [where] if isinstance(where, str) else list(where or ())
        seen = [each for each in ids if each in self._observations]
        if seen:
            return Markup('data-observation="{}"').format(" ".join(format.clean(each) for each in seen))
        return Markup('data-event="{}"').format(self._event(ids[0]) if ids else self._head)

    def _event(self, identity: str) -> int:
        number = identity.removeprefix("event:")
        return int(number) if number.isdecimal() else self._launches.get(identity, self._head)

    def number(self, value: float | None, text: str | None, where: int | str | Sequence[str] | None) -> Markup:
        """A figure: shown as `text`, its exact value and its source in attributes. None is shown as a dash."""
        if value is None:
            return Markup("–")
        shown = format.clean(f"{value:g}" if text is None else text)
        return Markup('<data value="{}" {}>{}</data>').format(json.dumps(value), self.attribute(where), shown)


def _drawings(report: Report, sources: _Sources) -> dict[str, Markup]:
    winner = next((row for row in report.candidates if row.id == report.best.candidate), None)
    proving = [block for block in winner.blocks if block.stage == "prove"] if winner is not None else []
    unit = next((row.unit for row in report.before_after if row.is_goal), "")
    name = f"{winner.id} {winner.title}" if winner is not None else ""
    return {
        "journey": charts_journey.journey(report.journey, "journey"),
        "forest": charts.forest(_intervals(report, sources), _target(report), "forest"),
        "pairs": charts.blocks(proving, unit, "pairs", name),
        "bars": charts.bars(_headlines(report.before_after)[:_MOST_BARS], "bars"),
    }


def _headlines(rows: Sequence[BeforeAfter]) -> list[BeforeAfter]:
    return [row for row in rows if row.is_goal or is_headline(row.name)]


def _target(report: Report) -> float | None:
    """The target on the ratio axis, above 1 better; None for an absolute one."""
    goal = report.goal
    if goal.target.kind != "ratio":
        return None
    return goal.target.value if goal.target.value > 1 else 1 / goal.target.value


def _intervals(report: Report, sources: _Sources) -> list[charts.Interval]:
    rows = [_interval(row, sources) for row in report.candidates if row.lane == "agent"]
    found = [row for row in rows if row is not None][:_MOST_CHARTED]
    honesty = report.honesty_row
    if honesty is not None and honesty.estimate is not None:
        found.append(_row("Plain search, same time", honesty.estimate, "other", sources.attribute(honesty.event)))
    if report.final is not None:
        label = f"{report.final.candidate} on fresh seeds"
        found.append(_row(label, report.final.estimate, "kept", sources.attribute(report.final.event)))
    return found


def _interval(row: CandidateRow, sources: _Sources) -> charts.Interval | None:
    verdict = row.verdict
    if verdict is not None and verdict.estimate is not None:
        proved = any(block.valid for block in row.blocks)
        style = "kept" if row.end == "kept" else "other" if proved else "screen"
        return _row(f"{row.id} {row.title}", verdict.estimate, style, sources.attribute(verdict.event))
    if row.screen is not None:
        return _row(f"{row.id} {row.title}", row.screen.estimate, "screen", sources.attribute(row.screen.event))
    return None


def _row(label: str, estimate: Any, style: str, source: Markup) -> charts.Interval:
    return charts.Interval(
        label=label, ratio=estimate.ratio, low=estimate.low, high=estimate.high, style=style, source=source
    )


def replace_file(path: Path, text: str) -> None:
    """Write a file beside its place, flush, then rename over it: a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
