"""The report in its other forms: Markdown, two runs, all runs, PDF; and journey, ladder and attribution in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from publish.sample_run import EXTRA, RUNS, complete_run, none_accepted_run
from publish.test_report_html import HOSTILE, Page, hostile_run

from infra_agent.errors import UsageError
from infra_agent.publish.report import pdf
from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.compare import compare, compare_lines
from infra_agent.publish.report.html import QUESTIONS, render
from infra_agent.publish.report.index import IndexRow, render_index, write_index
from infra_agent.publish.report.markdown import markdown
from infra_agent.publish.report.model import Report


@pytest.fixture(scope="module")
def report() -> Report:
    return build_report(complete_run(), EXTRA)


def test_markdown_answers_the_nine_questions_in_every_state() -> None:
    for make in RUNS.values():
        text = markdown(build_report(make(), EXTRA))
        assert [f"## {n}. {question}" in text for n, question in enumerate(QUESTIONS, start=1)] == [True] * 9


def test_markdown_shows_the_figures_of_the_report(report: Report) -> None:
    text = markdown(report)
    assert report.final is not None
    assert f"x{report.final.estimate.ratio:.2f}" in text
    assert report.ledger.head_hash in text


def test_hostile_text_is_inert_in_markdown() -> None:
    text = markdown(build_report(hostile_run().state, EXTRA))
    for line in text.splitlines():
        if not line.startswith(("`", "env ", "infra-agent ", "python ", "until ", "#")):
            assert "<script>" not in line.replace("\\<", "")
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_journey_has_a_point_for_every_candidate_and_a_best_that_only_kept_ones_move(report: Report) -> None:
    own = [row.id for row in report.candidates if row.lane == "agent" and row.verdict is not None]
    assert sorted(point.candidate for point in report.journey) == sorted(own)
    assert [point.at_s for point in report.journey] == sorted(point.at_s for point in report.journey)
    best = 1.0
    for point in report.journey:
        if point.end == "kept":
            assert point.ratio == point.best
            best = point.best
        assert point.best == best
    assert best > 2


def test_the_ladder_costs_add_up_and_name_what_ended_where(report: Report) -> None:
    assert [row.rung for row in report.rung_costs] == ["static", "numeric", "load"]
    assert sum(row.wall_s for row in report.rung_costs) == pytest.approx(report.cost.observations_s)
    ended = {name: row.rung for row in report.rung_costs for name in row.ended}
    assert ended == {row.candidate: row.rung for row in report.verdicts}


def test_attribution_names_each_kept_change_with_what_it_added(report: Report) -> None:
    assert [row.candidate for row in report.attribution] == [row.candidate for row in report.accepted]
    assert report.attribution[0].added == report.accepted[0].estimate


def test_a_run_compared_with_itself_shows_no_difference_and_one_of_another_load_is_void(report: Report) -> None:
    same = compare(report, report)
    assert (same.void, same.overlap) == ([], True)
    other = report.model_copy(update={"stack": report.stack.model_copy(update={"workload_sha256": "0" * 64})})
    found = compare(report, other)
    assert found.void == ["another workload"]
    assert "Not comparable: another workload" in compare_lines(found)


def test_a_run_without_a_gain_is_compared_without_one(report: Report) -> None:
    found = compare(report, build_report(none_accepted_run(), EXTRA))
    assert found.right.gain is None
    assert found.overlap is None
    assert any("not measured" in line for line in compare_lines(found))


def row(number: int, report: Report, **fields: object) -> IndexRow:
    gain = report.final.estimate if report.final is not None else None
    document = {
        "run": f"R{number}", "started": "2026-11-30", "stack": "demo", "goal": "g", "status": "finished",
        "outcome": "met", "gain": gain, "total_s": 60.0, "page": f"R{number}/report.html",
    }  # fmt: skip
    return IndexRow.model_validate(document | fields)


def test_the_page_of_all_runs_links_them_and_draws_each_stacks_gains(report: Report, tmp_path: Path) -> None:
    rows = [row(2, report), row(1, report), row(0, report, gain=None, status="damaged", page="", goal=HOSTILE)]
    path = write_index(tmp_path, rows)
    page = Page(path.read_text())
    assert page.stack == []
    links = [attrs["href"] for tag, attrs in page.elements if tag == "a"]
    assert links == ["R2/report.html", "R1/report.html"]
    assert sum(tag == "circle" for tag, _ in page.elements) == 2
    assert "script" not in {tag for tag, _ in page.elements}
    assert "No run yet" in render_index([])


def test_the_page_of_a_run_shows_journey_and_ladder(report: Report) -> None:
    text = render(report)
    assert 'aria-labelledby="journey-t journey-d"' in text
    assert "The ladder, cheapest rung first" in text


def test_without_chromium_a_pdf_is_an_error_with_a_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match="needs Chromium") as caught:
        pdf.print_pdf(tmp_path / "x.html", tmp_path / "x.pdf")
    assert "--format html" in caught.value.hint


@pytest.mark.browser
@pytest.mark.skipif(pdf.browser() is None, reason="no Chromium on PATH: apt-get install chromium")
def test_with_chromium_the_page_becomes_a_pdf(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(report))
    pdf.print_pdf(page, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
