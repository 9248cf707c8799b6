"""Tables of a report in Markdown: the same figures as the page, for pull requests and `report --format md`.

Covered: foreign text made inert for Markdown, figures with intervals, tables of metrics, candidates and micro rungs.
Not covered: where they stand (`publish.pull_request.body`, `publish.report.markdown`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infra_agent.publish.report import format
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.rows import BeforeAfter, EstimateRow, Figure, RatioRow

_ACTIVE = {character: f"\\{character}" for character in "\\`*_{}[]<>#|~!"}
_LONGEST = 400


def plain(text: object, longest: int = _LONGEST) -> str:
    """Foreign text on one line, in which nothing is markup: no links, images, HTML, mentions or headings."""
    words = " ".join(format.clean(text, longest).split())
    inert = "".join(_ACTIVE.get(character, character) for character in words)
    # An address or a mention would notify somebody or load something: it stands as text.
    return inert.replace("://", ":\u200b//").replace("@", "@\u200b").replace("www.", "www\u200b.")


def code(text: object) -> str:
    """Foreign text as inline code, fenced by more backticks than it holds."""
    words = " ".join(format.clean(text).split()) or " "
    run = max((len(part) for part in _backticks(words)), default=0)
    fence = "`" * (run + 1)
    pad = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{pad}{words.replace('|', chr(92) + '|')}{pad}{fence}"


def block(text: str, language: str = "") -> list[str]:
    """Lines as a fenced block that they cannot end."""
    lines = [format.clean(line) for line in text.rstrip("\n").split("\n")]
    fence = "`" * max(3, max((len(part) for line in lines for part in _backticks(line)), default=0) + 1)
    return [f"{fence}{language}", *lines, fence]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; cells are Markdown already."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(cell or ' ' for cell in row)} |" for row in rows)]


def figure(value: Figure, unit: str, reference: float) -> str:
    """`25.3 [24.7, 25.8]` in the row's unit."""
    factor, _, places = format.scale(unit, reference)
    text = f"{value.value * factor:.{places}f}"
    if value.low is None or value.high is None:
        return text
    return f"{text} [{value.low * factor:.{places}f}, {value.high * factor:.{places}f}]"


def ratio(row: EstimateRow | RatioRow | None) -> str:
    """`x2.94 [2.83, 3.05]`, or that it was not measured."""
    return format.estimate(row)


def before_after(rows: Sequence[BeforeAfter]) -> list[str]:
    """Every metric measured in both configurations."""
    head = ("Metric", "Unit", "Stock", "n", "Best", "n", "best / stock", "Reads as")
    return table(head, [_metric(row) for row in rows])


def _metric(row: BeforeAfter) -> tuple[str, ...]:
    unit = format.scale(row.unit, row.stock.value)[1]
    reads = "no difference shown" if row.better is None else "better" if row.better else "**worse**"
    return (
        plain(row.label), plain(unit), figure(row.stock, row.unit, row.stock.value), str(row.stock.n),
        figure(row.best, row.unit, row.stock.value), str(row.best.n), ratio(row.change), reads,
    )  # fmt: skip


def micro(report: Report, candidates: Sequence[str]) -> list[str]:
    """What micro-benchmarks measured on stock and these candidates; empty without any."""
    rows = []
    for made in report.observations:
        if made.rung != "micro" or made.candidate not in (report.baseline.candidate, *candidates):
            continue
        for quantity in made.quantities:
            low, high = quantity.get("low"), quantity.get("high")
            between = "" if low is None or high is None else f"[{low:g}, {high:g}]"
            shown = f"{quantity['value']:g} {between}".strip() if quantity.get("value") is not None else "–"
            rows.append(
                (
                    made.candidate, plain(format.where(made.where), 80), plain(quantity.get("name", ""), 80), shown,
                    plain(quantity.get("unit", ""), 20), str(quantity.get("n", "")), made.id,
                )
            )  # fmt: skip
    return table(("Configuration", "Where", "Quantity", "Value", "Unit", "n", "Record"), rows) if rows else []


def tried(report: Report) -> list[str]:
    """Everything that did not become part of the best, with the reason."""
    kept = {row.candidate for row in report.accepted}
    rows = [
        (row.candidate, plain(row.title, 80), row.decision, ratio(row.estimate), plain(row.reason, 160))
        for row in report.verdicts
        if row.candidate not in kept and row.lane == "agent"
    ]
    return table(("Candidate", "Change", "Verdict", "Ratio", "Reason"), rows) if rows else []


def _backticks(text: str) -> list[str]:
    return ["`" * len(part) for part in _runs(text)]


def _runs(text: str) -> list[str]:
    found, run = [], ""
    for character in [*text, ""]:
        if character == "`":
            run += character
        elif run:
            found.append(run)
            run = ""
    return found
