from __future__ import annotations

import json
from typing import Any

import pytest
from ledger.ledger_samples import answered, asked, chained, phase, started

from infra_agent.ledger import kinds as k
from infra_agent.ledger.fold import fold
from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.html import render, to_json

SETTINGS = {"model": "m", "base_url": "http://127.0.0.1:8000/v1"}
HYPOTHESIS = k.HypothesisStated(
    id="H1", family="batching", cause="one at a time", place="p", refuted_by="r",
    predictions=({"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 3.0},), refuting_probe="overlap",
)  # fmt: skip
CANDIDATE = k.CandidateProposed(
    id="C1", title="batching", hypothesis="H1", base="stock", changes=(), settings={}, digest="d" * 64, risk="routine",
    risk_reasons=(), family="batching", lane="agent",
)  # fmt: skip
FINAL = k.FinalMeasured(
    candidate="C1", arms=("stock", "C1"), search_seeds=(1,), seeds=(2,),
    estimate=k.EstimateData(ratio=2.5, low=2.4, high=2.6, p=None, n=3, confidence=0.95, method="t"),
    stock_value=1.0, candidate_value=2.5,
)  # fmt: skip


def call(number: int, action: dict[str, Any], usd: float | None = 0.01, **fields: Any) -> list[k.EventData]:
    given = {"actions": (action,), "usd": usd, "input_tokens": 100 * number, "output_tokens": number, **fields}
    spent = {"tokens_in": given["input_tokens"], "tokens_out": given["output_tokens"], "usd": usd or 0.0}
    reserved = k.BudgetReserved(id=f"B{number}", what="a call", amounts=spent)
    settled = k.BudgetSettled(id=f"B{number}", amounts=spent)
    return [reserved, asked(f"A{number}", turn=number), settled, answered(f"A{number}", **given)]


def report_of(*events: k.EventData, brain: str = "llm") -> dict[str, Any]:
    state = fold(chained(started(brain=brain, brain_settings=SETTINGS), phase("tuning"), *events))
    document: dict[str, Any] = json.loads(to_json(build_report(state)))
    return document


STORY = [
    *call(1, {"kind": "measure", "probe": "load"}),
    *call(2, {"kind": "hypothesise", "cause": "one at a time"}),
    HYPOTHESIS,
    *call(3, {"kind": "propose", "hypothesis": "H1"}),
    CANDIDATE,
    *call(4, {"kind": "prove", "candidate": "C1"}),
    *call(5, {}, actions=(), fault="no_action", correction="Say it as JSON."),
]


def test_tokens_and_money_by_phase_and_hypothesis_sum_to_what_was_charged() -> None:
    report = report_of(*STORY, FINAL)
    rows = {row["hypothesis"]: row for row in report["llm"]["cost"]}
    assert {name: (row["calls"], row["tokens_in"]) for name, row in rows.items()} == {"": (2, 600), "H1": (3, 900)}
    assert {row["phase"] for row in report["llm"]["cost"]} == {"tuning"}
    assert sum(row["tokens_in"] + row["tokens_out"] for row in rows.values()) == 1515
    assert report["cost"]["brain_tokens"] == report["llm"]["tokens_in"] + report["llm"]["tokens_out"] == 1515
    assert sum(row["usd"] for row in rows.values()) == pytest.approx(0.05)
    assert report["cost"]["brain_usd"] == pytest.approx(0.05)
    assert report["llm"]["accepted_percent"] == pytest.approx(150.0)
    assert report["llm"]["accepted_percent_per_usd"] == pytest.approx(3000.0)
    assert report["llm"]["faults"] == {"no_action": 1}


def test_a_sum_with_an_unknown_price_in_it_is_unknown() -> None:
    report = report_of(*STORY, *call(6, {"kind": "consult"}, usd=None))
    assert report["llm"]["usd"] is None
    assert report["llm"]["accepted_percent_per_usd"] is None


def test_what_the_endpoint_did_not_count_itself_is_told_apart() -> None:
    lost = [asked("A6", turn=6), answered("A6", actions=(), call_ids=(), fault="lost", usage="reserved", usd=0.1)]
    report = report_of(*STORY, *lost)
    assert report["llm"]["tokens_not_reported"] == 820
    assert report["llm"]["faults"] == {"no_action": 1, "lost": 1}


def test_the_brain_that_took_over_stands_in_run_model_and_degraded() -> None:
    report = report_of(*STORY, k.BrainFellBack(turn=6, brain="llm", to="playbook", reason="seven faults in a row"))
    assert report["run"]["fell_back"] == "playbook: seven faults in a row"
    assert report["llm"]["fell_back"] == "seven faults in a row"
    assert any("gave up in turn 6 and playbook went on" in row["text"] for row in report["degraded"])


def test_a_skipped_family_shows_the_brains_reason_and_evidence() -> None:
    given = k.FamilySkipped(family="memory", disposition="ruled_out", reason="no preemptions", evidence=("O1",))
    rows = {row["family"]: row for row in report_of(*STORY, given)["families"]}
    assert rows.get("memory") is None
    stated = HYPOTHESIS.model_copy(update={"id": "H2", "family": "memory"})
    rows = {row["family"]: row for row in report_of(*STORY, stated, given)["families"]}
    assert rows["memory"]["disposition"] == "skipped/ruled_out"
    assert (rows["memory"]["reason"], rows["memory"]["evidence"]) == ("no preemptions", ["O1"])


def test_every_stated_range_stands_beside_its_newest_measurement() -> None:
    scores = [
        k.PredictionScored(
            hypothesis="H1", candidate="C1", rung="load", metric="output_tok_per_s", low=1.5, high=3.0,
            measured=measured, inside=measured < 3, score=0.7, basis=basis,
        )
        for basis, measured in (("screen", 3.5), ("proved", 2.5))
    ]  # fmt: skip
    report = report_of(*STORY, *scores)
    row = report["hypotheses"][0]
    assert row["refuting_probe"] == "overlap"
    assert [(p["measured"], p["inside"], p["basis"]) for p in row["predictions"]] == [(2.5, True, "proved")]
    assert [(r["rung"], r["scored"], r["inside"]) for r in report["predictor"]["rungs"]] == [("load", 1, 1)]


def test_a_run_that_asked_no_model_has_no_such_section() -> None:
    report = report_of(brain="playbook")
    assert report["llm"] is None
    assert report["cost"]["brain_tokens"] == 0


def test_the_page_shows_the_model_its_faults_and_its_costs() -> None:
    state = fold(chained(started(brain="llm", brain_settings=SETTINGS), phase("tuning"), *STORY, FINAL))
    page = render(build_report(state))
    assert "no action" in page
    assert "accepted percent per USD" in page
    assert "probe: overlap" in page
