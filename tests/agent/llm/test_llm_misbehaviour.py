"""Every way in which a model misbehaves, from its answer to ledger and report: none is fatal, none is carried out.

The ledger, the endpoint and the report are real; the engine is one that cannot be started, so that nothing but the
model decides how a run ends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent.llm.cases import CASES, Case, policy_of
from agent.llm.journals import brain_over
from agent.sessions import add_baseline, session_in

from infra_agent.agent.run import carry_out
from infra_agent.ledger.verify import verify
from infra_agent.publish.publish import publish
from infra_agent.publish.report.model import Report
from infra_agent.testing.scripted_llm import ScriptedLlm

DONE_BY_NOBODY = {"accepted", "approved", "granted", "waiting"}


def run(folder: Path, case: Case) -> Path:
    """A run of an LLM brain on a measured stock, carried to its end and reported; its directory."""
    with (
        session_in(folder, brain="llm", budget_s=50_000.0) as session,
        ScriptedLlm(policy=policy_of(case)).serving() as llm,
    ):
        add_baseline(session)
        with brain_over(session, llm, timeout_s=case.timeout_s) as brain:
            carry_out(session, brain)
        publish(session.run_dir, session.state)
        return session.run_dir


def events_of(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


def faults(events: list[dict[str, Any]]) -> set[str]:
    of_answers = {event["data"]["fault"] for event in events if event["kind"] == "llm_answered"}
    return (of_answers | {event["data"]["code"] for event in events if event["kind"] == "action_refused"}) - {""}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_model_that_gives(case: Case, tmp_path: Path) -> None:
    run_dir = run(tmp_path, case)
    events = events_of(run_dir)
    report = Report.model_validate_json((run_dir / "report.json").read_text())
    kinds = {event["kind"] for event in events}
    assert verify(run_dir).ok, verify(run_dir).problems
    assert faults(events) == ({case.fault} if case.fault else set())
    assert (report.run.fell_back is not None) == (case.ends == "gives up")
    assert any("gave up in turn" in row.text for row in report.degraded) == (case.ends == "gives up")
    assert report.outcome.code == "not_met"
    assert not kinds & DONE_BY_NOBODY
    assert all(row.disposition != "untested" for row in report.families)
    _require_paid(report, events)


def _require_paid(report: Report, events: list[dict[str, Any]]) -> None:
    """Every question has its end in the ledger, and the report counts what they cost."""
    asked = [event["data"]["id"] for event in events if event["kind"] == "llm_asked"]
    answered = [event["data"]["id"] for event in events if event["kind"] == "llm_answered"]
    assert report.llm is not None
    assert asked == answered
    assert report.llm.calls == len(asked)
    assert sum(row.tokens_in for row in report.llm.cost) == report.llm.tokens_in
    assert sum(row.tokens_out for row in report.llm.cost) == report.llm.tokens_out
    assert report.cost.brain_tokens == report.llm.tokens_in + report.llm.tokens_out


def test_there_are_at_least_forty_of_them() -> None:
    assert len(CASES) >= 40


def test_markup_in_a_models_words_is_text_in_the_report(tmp_path: Path) -> None:
    run_dir = run(tmp_path, CASES["markup and templates in a hypothesis"])
    page = (run_dir / "report.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "{{ 7*7 }}" in page
    assert "\x1b" not in page
