"""`runs/index.html`: all runs in one page, newest first, and the gain of the finished ones of each stack over time.

Covered: status, outcome, gain with interval, cost, links to the reports beside it; damaged runs are listed as such.
Not covered: anything a single report says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from infra_agent.publish.report import format
from infra_agent.publish.report.charts import WIDTH, line, svg, text
from infra_agent.publish.report.html import inert, replace_file
from infra_agent.publish.report.rows import EstimateRow, Row
from infra_agent.redact.masker import NO_SECRETS, Masker

FILE = "index.html"
_HEIGHT = 120
_MOST_DRAWN = 60


class IndexRow(Row):
    """One run. `gain`: of best over stock on fresh seeds; None where there is none. `page`: the report, if there."""

    run: str
    started: str
    stack: str
    goal: str
    status: str
    outcome: str
    gain: EstimateRow | None
    total_s: float | None
    page: str


def write_index(root: Path, rows: Sequence[IndexRow], masker: Masker = NO_SECRETS) -> Path:
    """Write the page; its path."""
    path = root / FILE
    replace_file(path, masker.text(render_index(rows)))
    return path


def render_index(rows: Sequence[IndexRow]) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("infra_agent.publish.report", "templates"), autoescape=True, undefined=StrictUndefined,
        finalize=inert, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.globals["f"] = format
    stacks = list(dict.fromkeys(row.stack for row in rows if row.gain is not None))
    trends = [(stack, trend([row for row in reversed(rows) if row.stack == stack], f"trend-{n}"))
              for n, stack in enumerate(stacks)]  # fmt: skip
    return environment.get_template("index.html.j2").render(rows=rows, trends=trends)


def trend(rows: Sequence[IndexRow], name: str) -> Markup:
    """Gains of one stack, oldest first, as intervals on a log axis."""
    drawn = [(row, row.gain) for row in rows if row.gain is not None and row.gain.ratio > 0][-_MOST_DRAWN:]
    if not drawn:
        return Markup("")
    ends = [end for _, gain in drawn for end in (gain.low, gain.high, gain.ratio) if end is not None and end > 0]
    low, high = min(0.0, *map(math.log, ends)) - 0.05, max(0.0, *map(math.log, ends)) + 0.05
    step = (WIDTH - 90) / len(drawn)

    def y(value: float) -> float:
        return 10 + _HEIGHT - (math.log(value) - low) / (high - low) * _HEIGHT

    parts = [line(70, y(1.0), WIDTH - 20, y(1.0), "base"), text(62, y(1.0) + 4, "x1.00", "m n", "end")]
    for index, (row, gain) in enumerate(drawn):
        at = 70 + step * (index + 0.5)
        if gain.low is not None and gain.high is not None and gain.low > 0:
            parts.append(line(at, y(gain.low), at, y(gain.high), "bar kept"))
        pattern = '<g><title>{}</title><circle class="dot kept" cx="{:.1f}" cy="{:.1f}" r="4"/></g>'
        parts.append(Markup(pattern).format(format.clean(f"{row.run} {format.estimate(gain)}"), at, y(gain.ratio)))
    described = "; ".join(f"{row.run} {format.estimate(gain)}" for row, gain in drawn)
    return svg(name, "Gain of each run over its own stock, oldest first", described, _HEIGHT + 24, parts)
