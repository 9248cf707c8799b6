"""What report.json promises, over complete, empty, interrupted, unsuccessful and waiting runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sample_run import (
    EXTRA,
    GOAL,
    RUN_ID,
    RUNS,
    STOCK_TOK_PER_S,
    TTFT_GOAL,
    Run,
    baseline,
    batching,
    complete_run,
    estimate,
    prove,
    start_event,
)

from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState
from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.html import to_json
from infra_agent.publish.report.measures import interval
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.reason_rows import CauseEvidence
from infra_agent.publish.report.schema import schema_text

KEYS = {
    "schema_version", "run", "goal", "stack", "outcome", "baseline", "best", "before_after", "accepted", "decisions",
    "people", "verdicts", "candidates", "proposals", "hypotheses", "predictor", "claims", "answers", "noise",
    "judge_error_rates", "journey", "rung_costs", "attribution",
    "families", "honesty_row", "agent", "final", "search", "observations", "not_measured", "degraded", "notes",
    "refused_actions", "failed_launches", "cost", "llm", "environment", "walls", "reproduce", "ledger",
}  # fmt: skip


def document(state: RunState, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(to_json(build_report(state, EXTRA if extra is None else extra)))
    return loaded


@pytest.fixture(scope="module")
def complete() -> dict[str, Any]:
    return document(complete_run())


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    """The JSON of every kind of run."""
    return [document(run()) for run in RUNS.values()]


def test_every_run_has_the_same_keys_and_survives_a_round_trip() -> None:
    for run in RUNS.values():
        report = build_report(run(), EXTRA)
        assert set(json.loads(to_json(report))) == KEYS
        assert Report.model_validate_json(to_json(report)) == report


def test_every_proposal_has_a_place_for_its_verdict_and_every_verdict_its_evidence(
    documents: list[dict[str, Any]],
) -> None:
    for run in documents:
        assert len([candidate["verdict"] for candidate in run["candidates"]]) == run["proposals"]
        known = {row["id"] for row in run["observations"]} | {row["id"] for row in run["failed_launches"]}
        for verdict in run["verdicts"]:
            assert verdict["evidence"]
            assert set(verdict["evidence"]) <= known


def test_every_observation_has_a_place_and_a_cost_and_every_family_a_disposition(
    documents: list[dict[str, Any]],
) -> None:
    for run in documents:
        assert all(len(row["where"]) > 0 and row["cost"]["wall_s"] >= 0 for row in run["observations"])
        names = [row["family"] for row in run["families"]]
        assert len(names) == 10
        assert names[-3:] == ["code", "kernels", "workload"]
        assert all(row["disposition"] and row["reason"] for row in run["families"])


def test_a_run_that_met_its_goal_says_so_with_final_and_search_estimates_side_by_side(complete: dict[str, Any]) -> None:
    assert complete["outcome"]["met"] is True
    assert complete["outcome"]["code"] == "met"
    kept = complete["accepted"][0]
    assert kept["estimate"]["n"] == 8
    assert kept["final"]["ratio"] == complete["final"]["estimate"]["ratio"] != kept["estimate"]["ratio"]
    assert not set(complete["final"]["seeds"]) & set(complete["search"]["seeds"])
    assert kept["undo"]["text"] == "leave out --continuous-batching"


def test_the_goal_is_a_checkable_contract(complete: dict[str, Any]) -> None:
    assert complete["goal"].keys() >= {"metric", "direction", "target", "constraints", "budget_s", "scope", "text"}
    assert complete["goal"]["target_text"] == "Output tokens per second: at least x2.00 of stock"


def test_ratio_low_high_and_p_stand_in_every_verdict_that_was_measured(complete: dict[str, Any]) -> None:
    measured = {row["candidate"]: row for row in complete["verdicts"] if row["estimate"] is not None}
    assert set(measured) == {"C1", "C2", "C3", "C4"}
    for row in measured.values():
        assert row["estimate"]["low"] <= row["estimate"]["ratio"] <= row["estimate"]["high"]
    assert measured["C1"]["p"] == measured["C1"]["estimate"]["p"] == 0.0039


def test_the_honesty_row_had_the_agents_screening_time(complete: dict[str, Any]) -> None:
    assert 0.95 < complete["honesty_row"]["wall_s"] / complete["agent"]["wall_s"] < 1.05
    assert complete["honesty_row"]["shared_with"] == "C1"


def test_ends_and_dispositions_follow_the_verdicts(complete: dict[str, Any]) -> None:
    ends = {row["id"]: row["end"] for row in complete["candidates"]}
    assert ends == {
        "C1": "kept", "C2": "rejected", "C3": "rejected", "C4": "inconclusive", "C5": "not_engaged", "C6": "crashed",
    }  # fmt: skip
    families = {row["family"]: row["disposition"] for row in complete["families"]}
    assert families["batching"] == "tested/kept"
    assert families["compile"] == "not_engaged"
    assert families["attention"] == "tested/inconclusive"
    assert families["quantisation"] == "not_applicable"
    assert families["workload"] == "not_applicable"


def test_a_prediction_stands_beside_its_measurement_and_was_stored_first(complete: dict[str, Any]) -> None:
    rows = {row["id"]: row for row in complete["hypotheses"]}
    assert rows["H1"]["inside"] is True
    assert rows["H2"]["inside"] is False
    assert rows["H5"]["measured"] is None
    assert rows["H5"]["inside"] is None
    assert all(row["event"] < row["measured"]["event"] for row in rows.values() if row["measured"])
    assert complete["predictor"] | {"interval_score": None} == {
        "brain": "playbook", "scored": 4, "inside": 1, "hit_rate": 0.25, "interval_score": None, "rungs": [],
    }  # fmt: skip


def test_the_comparison_uses_the_final_windows_alone_and_the_judges_ratio_for_the_goal(
    complete: dict[str, Any],
) -> None:
    rows = {row["name"]: row for row in complete["before_after"]}
    goal = rows["output_tok_per_s"]
    purposes = {row["id"]: row["purpose"] for row in complete["observations"]}
    assert {purposes[source] for side in ("stock", "best") for source in goal[side]["sources"]} == {"final"}
    assert goal["change"]["ratio"] == complete["final"]["estimate"]["ratio"]
    assert goal["stock"]["n"] == goal["best"]["n"] == 3
    assert goal["better"] is True
    assert rows["tpot_s"]["better"] is False
    assert rows["failures"]["change"] is None
    assert rows["memory_bytes"]["unit"] == "B"


def test_windows_of_a_block_that_was_not_valid_are_not_counted() -> None:
    run = Run()
    baseline(run)
    batching(run)
    prove(run, "C1", 2.94, blocks=6, bad=2)
    run.verdict("C1", "accepted", "proved", "load", "significant", (), estimate=estimate(2.94, 0.04, 5))
    run.add(k.Accepted(candidate="C1", gate="none", elapsed_s=run.elapsed_s))
    report = build_report(run.state, EXTRA)
    bad = next(block for block in report.candidates[0].blocks if not block.valid)
    row = next(row for row in report.before_after if row.is_goal)
    assert row.windows == "search"
    assert not set(bad.observations) & {*row.stock.sources, *row.best.sources}
    assert "final_relaunch" in {gap.what for gap in report.not_measured}


def test_a_ratio_of_a_metric_to_be_lowered_is_turned_back_for_the_table() -> None:
    run = Run(goal=TTFT_GOAL)
    baseline(run)
    batching(run)
    prove(run, "C1", 2.94, blocks=4)
    run.verdict("C1", "accepted", "proved", "load", "significant", (), estimate=estimate(2.94, 0.04, 4))
    run.add(k.Accepted(candidate="C1", gate="none", elapsed_s=run.elapsed_s))
    row = next(row for row in build_report(run.state, EXTRA).before_after if row.is_goal)
    assert row.name == "ttft_p50_s"
    assert row.change is not None
    assert row.change.ratio == pytest.approx(1 / 2.94)
    assert row.change.low is not None
    assert row.change.low < row.change.ratio
    assert row.better is True


def test_an_interval_over_launches_is_the_t_interval_of_the_logs() -> None:
    mean, low, high = interval([20.0, 25.0, 31.25])
    assert mean == pytest.approx(25.0)
    half = 4.302652729911275 * math.log(1.25) / math.sqrt(3)
    assert (low, high) == pytest.approx((25 * math.exp(-half), 25 * math.exp(half)))


def test_no_gpu_and_an_open_network_are_lines_not_zeros(complete: dict[str, Any]) -> None:
    gaps = {row["what"]: row["reason"] for row in complete["not_measured"]}
    assert gaps["device_time"] == "no GPU on this machine"
    assert gaps["network_isolation"].startswith("not held")
    assert "logprobs" in gaps
    assert gaps["note"] == "quality on long prompts: the stack's prompts are short"


def test_removing_a_probes_output_adds_a_line_and_never_a_zero() -> None:
    state = complete_run()
    less = {key: _without(made, "memory_bytes") for key, made in state.observations.items()}
    before, after = document(state), document(replace(state, observations=less))
    assert "memory_bytes" not in {row["what"] for row in before["not_measured"]}
    assert "memory_bytes" in {row["what"] for row in after["not_measured"]}
    assert "memory_bytes" not in {row["name"] for row in after["before_after"]}


def _without(made: k.ObservationMade, name: str) -> k.ObservationMade:
    kept = [quantity for quantity in made.observation["quantities"] if quantity["name"] != name]
    return made.model_copy(update={"observation": {**made.observation, "quantities": kept}})


def test_the_cheap_rungs_savings_follow_from_the_measured_block_cost(complete: dict[str, Any]) -> None:
    saved = complete["cost"]["rungs_saved"]
    assert saved["candidates"] == ["C5", "C6"]
    assert saved["estimated_s"] == pytest.approx(2 * 28.0 * 3)
    phases = complete["cost"]["wall_s"]
    assert set(phases) == {"baseline", "tuning", "honesty", "final"}
    assert sum(phases.values()) == pytest.approx(complete["cost"]["total_s"])
    assert complete["cost"]["launches"] == sum(complete["cost"]["launches_by_purpose"].values())


def test_an_unfinished_run_is_not_met_and_says_why() -> None:
    assert document(RUNS["empty"]())["outcome"]["code"] == "running"
    interrupted = document(RUNS["interrupted"]())
    assert interrupted["outcome"] | {"sentence": "", "event": 0} == {
        "met": False, "code": "interrupted", "exit_code": None, "sentence": "", "event": 0,
    }  # fmt: skip
    assert interrupted["candidates"][0]["end"] == "open"


def test_a_candidate_that_waits_is_a_decision_and_not_accepted() -> None:
    waiting = document(RUNS["waiting"]())
    assert waiting["accepted"] == []
    assert waiting["best"]["candidate"] == "stock"
    assert waiting["decisions"][0]["command"].startswith("infra-agent review show ")
    assert waiting["decisions"][0]["approve"] == f"infra-agent review approve {RUN_ID}/C3"
    assert len(waiting["decisions"][0]["request"]) == 64
    assert waiting["people"] == []
    assert waiting["candidates"][0]["end"] == "waiting"


def test_a_missing_answer_check_of_the_winner_is_never_a_pass() -> None:
    state = complete_run()
    kept = {key: made for key, made in state.observations.items() if made.purpose != "answers"}
    unchecked = document(replace(state, observations=kept))
    assert unchecked["answers"]["verdict"] == "not_checked"
    assert "answers" in {row["what"] for row in unchecked["not_measured"]}
    assert document(state)["answers"] | {"sources": [], "detail": ""} == {
        "verdict": "pass", "candidate": "C1", "same": 6, "near_ties": 2, "changed": 0, "sources": [], "detail": "",
    }  # fmt: skip


def test_a_number_that_is_none_becomes_null_and_not_an_invalid_document() -> None:
    state = complete_run()
    noise = k.NoiseKnown.model_construct(
        sd_log=math.nan, mde_ratio=1.0, blocks=12, samples=2, source="calibrated"
    )  # fmt: skip
    honesty = k.HonestyRow.model_construct(
        **(state.honesty.model_dump() if state.honesty else {})
        | {"estimate": k.EstimateData.model_construct(**estimate(1.0, 0.1, 2).model_dump() | {"high": math.inf})}
    )
    odd = document(replace(state, noise=noise, honesty=honesty))
    assert odd["noise"] is None
    assert odd["honesty_row"]["estimate"]["high"] is None


def test_the_published_schema_is_the_models_own() -> None:
    published = Path(__file__).parents[2] / "docs" / "report.schema.json"
    assert published.read_text(encoding="utf-8") == schema_text(), "run infra_agent.publish.report.schema.write_schema"


def test_a_cause_cannot_be_built_without_all_three_kinds_of_evidence() -> None:
    with pytest.raises(ValidationError):
        CauseEvidence(apply=["O1"], revert=[], placebo=["event:3"])


def test_apply_revert_and_placebo_make_a_cause(complete: dict[str, Any]) -> None:
    (claim,) = complete["claims"]
    assert claim["kind"] == "cause"
    assert all(claim["evidence"][part] for part in ("apply", "revert", "placebo"))
    assert not set(claim["evidence"]["apply"]) & set(claim["evidence"]["revert"])


def _one_order(run: Run) -> None:
    for block in range(1, 12, 2):
        run.block("C1", "stock", (STOCK_TOK_PER_S, STOCK_TOK_PER_S * 2.94), "prove", block)


def _effect_of_order(run: Run) -> None:
    # Whatever is launched second is faster: the two orders contradict each other.
    for block in range(1, 7):
        rates = (STOCK_TOK_PER_S, STOCK_TOK_PER_S * 1.3)
        run.block("C1", "stock", rates if block % 2 else (rates[1], rates[0]), "prove", block)


@pytest.mark.parametrize(
    ("measure", "noise", "engaged", "missing"),
    [
        (_one_order, "calibrated", True, "revert"),
        (_effect_of_order, "calibrated", True, "revert"),
        (lambda run: prove(run, "C1", 2.94), "assumed", True, "placebo"),
        (lambda run: prove(run, "C1", 2.94), "calibrated", False, "in effect"),
    ],
)
def test_without_one_of_them_it_is_an_association(measure: Any, noise: Any, engaged: bool, missing: str) -> None:
    run = Run()
    run.add(k.NoiseKnown(sd_log=0.02, mde_ratio=1.03, blocks=12, samples=6, source=noise))
    run.hypothesis(1, "batching", "requests are served one after another", 2.0, 3.5)
    run.propose("C1", "H1")
    if engaged:
        run.engage("C1")
    measure(run)
    run.verdict("C1", "accepted", "proved", "load", "significant", (), estimate=estimate(1.3, 0.03, 6))
    (claim,) = document(run.state)["claims"]
    assert claim["kind"] == "association"
    assert any(missing in line for line in claim["missing"])


def test_two_changes_at_once_are_no_cause() -> None:
    state = complete_run()
    first = state.candidates["C1"]
    two = first.proposed.model_copy(update={"changes": (*first.proposed.changes, {"parameter": "dtype", "value": "x"})})
    both = replace(state, candidates={**state.candidates, "C1": replace(first, proposed=two)})
    (claim,) = document(both)["claims"]
    assert claim["kind"] == "association"
    assert claim["missing"] == ["2 changes at once: none was tested alone"]


def test_a_screen_alone_makes_no_claim() -> None:
    assert document(RUNS["none accepted"]())["claims"] == []


def test_a_family_outside_the_scope_says_so() -> None:
    closed = GOAL.model_copy(update={"scope": GOAL.scope.model_copy(update={"parameters": False})})
    state = replace(RUNS["empty"](), started=start_event(goal=closed))
    rows = {row["family"]: row["reason"] for row in document(state)["families"]}
    assert rows.pop("code") == rows.pop("kernels") == "the goal's scope leaves code alone"
    assert rows.pop("workload").startswith("frozen by the run's contract")
    assert set(rows.values()) == {"the goal's scope leaves parameters alone"}


def test_without_the_engines_table_flags_are_parameter_names() -> None:
    bare = document(complete_run(), {})
    assert bare["accepted"][0]["undo"]["text"] == "leave out continuous_batching"
    assert "judge_error_rates" in {row["what"] for row in bare["not_measured"]}
