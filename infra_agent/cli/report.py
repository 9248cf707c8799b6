"""`infra-agent report`: a run's report from its ledger in any form, two runs side by side, the page of all runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.options import JsonFlag, RunRef, runs_root
from infra_agent.cli.output import print_json, print_lines
from infra_agent.cli.streams import masker_of
from infra_agent.errors import LedgerError, UsageError

if TYPE_CHECKING:
    from infra_agent.ledger.runs import RunSummary
    from infra_agent.publish.report.index import IndexRow
    from infra_agent.publish.report.model import Report


class Format(StrEnum):
    """What to make. `html` and `pdf` are files; `json` and `md` are printed."""

    HTML = "html"
    JSON = "json"
    MD = "md"
    PDF = "pdf"


def report(
    ref: RunRef = "last",
    other: Annotated[str, typer.Argument(help="With --compare: the second run.")] = "",
    form: Annotated[
        Format | None, typer.Option("--format", help="json and md are printed; html and pdf are files of the run.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Two runs side by side: report --compare RUN RUN.")
    ] = False,
    index: Annotated[bool, typer.Option("--index", help="The page of all runs: runs/index.html.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Rebuild report.html and report.json of a run, or show it in another form.

    JSON keys: html, json; with --format pdf: pdf; with --compare: left, right, void[], overlap; with --index: html,
    runs. --format json prints the report itself.
    """
    if compare:
        return _compare(ref, other, as_json)
    if other:
        raise UsageError("two runs are for --compare", where=other, hint="infra-agent report --compare RUN RUN")
    if index:
        return _index(as_json)
    if form in (Format.JSON, Format.MD):
        return _printed(ref, form is Format.JSON, as_json)
    return _written(ref, form is Format.PDF, as_json)


def _written(ref: str, pdf: bool, as_json: bool) -> int:
    from infra_agent.ledger.runs import find_run
    from infra_agent.publish.publish import load_state, publish
    from infra_agent.publish.report.pdf import print_pdf

    run_dir = find_run(runs_root(), ref)
    html, document = publish(run_dir, load_state(run_dir), masker_of(sys.stdout))
    made = {"html": str(html), "json": str(document)}
    if pdf:
        printed = run_dir / "report.pdf"
        print_pdf(html, printed)
        made = {"pdf": str(printed)}
    if as_json:
        print_json(made)
    else:
        print_lines(list(made.values()))
    return 0


def _printed(ref: str, document: bool, as_json: bool) -> int:
    from infra_agent.publish.report.markdown import markdown

    found = _report(ref)
    if document:
        print_json(found.model_dump(mode="json"))
    elif as_json:
        print_json({"md": markdown(found)})
    else:
        print_lines(markdown(found).rstrip("\n").split("\n"))
    return 0


def _compare(ref: str, other: str, as_json: bool) -> int:
    from infra_agent.publish.report.compare import compare, compare_lines

    if not other:
        raise UsageError("two runs are needed", where="--compare", hint="infra-agent report --compare RUN RUN")
    found = compare(_report(ref), _report(other))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_lines(compare_lines(found))
    return 0


def _index(as_json: bool) -> int:
    from infra_agent.ledger.runs import list_runs
    from infra_agent.publish.report.index import write_index

    root = runs_root()
    rows = [_row(root, run) for run in list_runs(root)]
    root.mkdir(parents=True, exist_ok=True)
    path = write_index(root, rows, masker_of(sys.stdout))
    if as_json:
        print_json({"html": str(path), "runs": len(rows)})
    else:
        print_lines([str(path)])
    return 0


def _row(root: Path, run: RunSummary) -> IndexRow:
    from infra_agent.publish.publish import load_state, report_of
    from infra_agent.publish.report.index import IndexRow

    page = run.path / "report.html"
    found: Report | None = None
    try:
        found = report_of(load_state(run.path)) if run.status != "damaged" else None
    except LedgerError:
        found = None
    final = found.final if found is not None else None
    return IndexRow(
        run=run.id,
        started=run.started_ts,
        stack=found.stack.name if found is not None else "",
        goal=run.goal_text,
        status=run.status,
        outcome=run.outcome,
        gain=final.estimate if final is not None else None,
        total_s=found.cost.total_s if found is not None else None,
        page=page.relative_to(root).as_posix() if page.is_file() else "",
    )


def _report(ref: str) -> Report:
    from infra_agent.ledger.runs import find_run
    from infra_agent.publish.publish import load_state, report_of

    return report_of(load_state(find_run(runs_root(), ref)))
