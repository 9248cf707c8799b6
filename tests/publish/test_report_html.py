"""The page: complete in every state, every figure tied to a record and equal to the JSON, foreign text inert."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from sample_run import EXTRA, GOAL, RUNS, TITLES, TTFT_GOAL, Run, baseline, complete_run, estimate, start_event

from infra_agent.ledger import kinds as k
from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.format import clean
from infra_agent.publish.report.html import QUESTIONS, render, to_json, write_report

HOSTILE = "</script></style><script>x()</script><img src=http://127.0.0.1:9/x onerror=x()>"
HOSTILE += "\x1b[31mred\x1b]0;title\x07{{ 7*7 }}\u202egnp\u2066"
VOID = {"meta", "br", "line", "circle", "rect", "link", "img", "input", "hr"}
MARKS = {"data-observation", "data-event"}


class Page(HTMLParser):
    """Collects elements and the texts that hold digits, with the attributes of all elements around them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.digits: list[tuple[str, list[tuple[str, dict[str, str | None]]]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack[-1][0] == tag, f"</{tag}> closes <{self.stack[-1][0]}>"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if re.search(r"\d", data):
            self.digits.append((data.strip(), list(self.stack)))


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    """The page of every kind of run."""
    return [Page(render(build_report(run(), EXTRA))) for run in RUNS.values()]


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def test_the_page_is_well_formed_and_answers_nine_questions_in_order(pages: list[Page]) -> None:
    for page in pages:
        assert page.stack == []
        ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
        assert ids == [f"q{number}" for number in range(1, 10)]
        headings = [text for text in page.texts if text in QUESTIONS]
        assert headings == [*QUESTIONS, *QUESTIONS]


def test_every_figure_is_marked_with_its_record(pages: list[Page]) -> None:
    for page in pages:
        # Not figures: question numbers, explanations in captions, column heads, and the axis of a drawing.
        frame = {"h2", "nav", "style", "title", "caption", "thead", "svg"}
        for text, around in page.digits:
            marked = any(MARKS & attrs.keys() for _, attrs in around)
            assert marked or frame & {tag for tag, _ in around}, f"unmarked: {text!r}"


def test_every_figure_equals_one_in_the_json(pages: list[Page]) -> None:
    for page, run in zip(pages, RUNS.values(), strict=True):
        report = build_report(run(), EXTRA)
        known = set(numbers(json.loads(to_json(report)))) | {float(len(report.candidates))}
        figures = [attrs for tag, attrs in page.elements if tag == "data"]
        assert {float(str(attrs["value"])) for attrs in figures} <= known
        assert all(MARKS & attrs.keys() for attrs in figures)


def test_marks_point_to_records_that_exist() -> None:
    state = complete_run()
    found = Page(render(build_report(state, EXTRA)))
    for _, attrs in found.elements:
        for identity in str(attrs.get("data-observation") or "").split():
            assert identity in state.observations
        if "data-event" in attrs:
            assert 1 <= int(str(attrs["data-event"])) <= state.head_seq


def test_the_page_shows_the_figures_of_the_report() -> None:
    report = build_report(complete_run(), EXTRA)
    text = " ".join(" ".join(Page(render(report)).texts).split())
    assert report.outcome.sentence in text
    assert report.final is not None
    assert f"x{report.final.estimate.ratio:.2f}" in text
    assert "flex_attention is not supported" in text
    for title in TITLES.values():
        assert title in text


def test_nothing_is_loaded_from_anywhere_and_no_script_exists(pages: list[Page]) -> None:
    for page in pages:
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use"}
        for tag, attrs in page.elements:
            assert not [name for name in attrs if name.startswith("on") or name in ("src", "srcset", "style")]
            if "href" in attrs:
                assert tag == "a"
                assert str(attrs["href"]).startswith("#")
        policy = [
            attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_every_table_has_a_caption_and_every_drawing_a_name(pages: list[Page]) -> None:
    for page in pages:
        tags = [tag for tag, _ in page.elements]
        assert tags.count("table") == tags.count("caption")
        drawings = [attrs for tag, attrs in page.elements if tag == "svg"]
        assert all(attrs["role"] == "img" and attrs["aria-labelledby"] for attrs in drawings)
        assert tags.count("desc") == len(drawings)
        regions = [attrs for _, attrs in page.elements if attrs.get("role") == "region"]
        assert all(attrs.get("tabindex") == "0" and attrs.get("aria-label") for attrs in regions)


def test_ids_are_unique(pages: list[Page]) -> None:
    for page in pages:
        ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
        assert len(ids) == len(set(ids))


def hostile_run() -> Run:
    run = Run(goal=GOAL.model_copy(update={"text": HOSTILE}), brain_note=HOSTILE, environment={HOSTILE: HOSTILE})
    baseline(run)
    run.add(
        k.HypothesisStated(
            id="H1", family=HOSTILE, cause=HOSTILE, place=HOSTILE, refuted_by=HOSTILE, source=HOSTILE,
            predictions=({"rung": "load", "low": "many", "high": None},),
        )
    )  # fmt: skip
    run.add(
        k.CandidateProposed(
            id="C1", title=HOSTILE, hypothesis="H1", base="stock", changes=({"parameter": HOSTILE, "value": HOSTILE},),
            settings={HOSTILE: HOSTILE}, digest="0" * 64, risk="routine", risk_reasons=(HOSTILE,), family=HOSTILE,
            lane="agent",
        )
    )  # fmt: skip
    launch = run.launch("C1", "candidate", "climb")
    run.ended(launch, "died", (HOSTILE,), HOSTILE)
    run.verdict("C1", "rejected", "slower", "load", HOSTILE, (launch,), estimate=estimate(0.8, 0.1, 3))
    run.add(k.ActionRefused(turn=1, action=HOSTILE, error=HOSTILE))
    run.add(k.Note(topic="warning", text=HOSTILE))
    run.add(k.RunFinished(outcome="not_met", exit_code=1, sentence=HOSTILE, elapsed_s=60))
    return run


def test_hostile_text_is_shown_as_text_and_nothing_else() -> None:
    report = build_report(hostile_run().state, EXTRA)
    text = render(report)
    found = Page(text)
    assert not {tag for tag, _ in found.elements} & {"script", "img"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text.replace("\n", ""))
    shown = "".join(found.texts)
    assert "<img src=http://127.0.0.1:9/x onerror=x()>red{{ 7*7 }}gnp" in shown
    assert "49" not in re.findall(r"red(\S*)", shown)


def test_json_keeps_hostile_text_faithfully_and_inert() -> None:
    report = build_report(hostile_run().state, EXTRA)
    text = to_json(report)
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text)["goal"]["text"] == HOSTILE


def test_cleaning_removes_what_acts_and_keeps_what_reads() -> None:
    assert clean("a\x1b[1mb\x1b[0m\x9b31mc\x1b]8;;http://x\x1b\\d\r\x00é → 漢字\t\n") == "abcdé → 漢字\t\n"
    assert clean("x" * 30, longest=10) == "xxxxxxxxxx … (20 more characters)"


def test_a_large_run_stays_under_a_megabyte_and_says_what_it_left_out() -> None:
    run = Run()
    baseline(run)
    for _ in range(700):
        run.window("stock", "baseline", 25.0)
    report = build_report(run.state, EXTRA)
    text = render(report)
    assert len(text.encode()) < 1_000_000
    assert f"First 300 of {len(report.observations)}; report.json has all." in text


def test_both_files_are_written_whole_and_replaced(tmp_path: Path) -> None:
    first = write_report(tmp_path, build_report(RUNS["empty"](), EXTRA))
    second = write_report(tmp_path, build_report(complete_run(), EXTRA))
    assert first == second == (tmp_path / "report.html", tmp_path / "report.json")
    assert json.loads(second[1].read_text(encoding="utf-8"))["outcome"]["met"] is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_a_failed_write_leaves_the_old_report_and_no_rubbish(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("old", encoding="utf-8")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError):
        write_report(tmp_path, build_report(RUNS["empty"](), EXTRA))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_a_target_below_one_is_drawn_on_the_side_that_is_better() -> None:
    state = complete_run()
    text = render(build_report(replace(state, started=start_event(goal=TTFT_GOAL)), EXTRA))
    assert "target x2.00" in text
