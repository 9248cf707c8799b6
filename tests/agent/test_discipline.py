from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.sessions import (
    STACK,
    add_baseline,
    add_candidate,
    add_hypothesis,
    add_window,
    give_verdict,
    session_in,
)

from infra_agent.agent.actions import ACTION
from infra_agent.agent.brains.script import ScriptBrain
from infra_agent.agent.discipline import BLIND_PROPOSALS, IDLE_ACTIONS, SAME_MEASUREMENTS, require_conduct
from infra_agent.agent.execute import execute
from infra_agent.agent.loop import pursue
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.view import build_dossier
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k

PROPOSAL = {
    "kind": "propose",
    "hypothesis": "H1",
    "changes": [{"parameter": "dtype", "value": "float32"}],
    "base": "best",
}
HYPOTHESIS: dict[str, Any] = {
    "kind": "hypothesise", "family": "batching", "cause": "One at a  time", "place": "admission",
    "refuted_by": "two at once",
    "predictions": [{"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 3.0}],
}  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A run of an LLM brain that has measured stock."""
    with session_in(tmp_path, brain="llm", budget_s=20_000.0) as made:
        add_baseline(made)
        yield made


def check(session: Session, document: dict[str, Any]) -> None:
    require_conduct(session, ACTION.validate_python(document), build_dossier(session, "agent"))


def refusal(session: Session, document: dict[str, Any]) -> ActionError:
    with pytest.raises(ActionError) as caught:
        check(session, document)
    return caught.value


def conclude(*skipped: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "conclude", "reason": "enough", "skipped": list(skipped)}


def skip(family: str, disposition: str = "not_worth_it", *evidence: str) -> dict[str, Any]:
    return {"family": family, "disposition": disposition, "reason": "it cannot matter here", "evidence": list(evidence)}


def test_a_proposal_cites_a_stated_hypothesis(session: Session) -> None:
    assert refusal(session, {**PROPOSAL, "hypothesis": ""}).code == "no_hypothesis"
    assert "none yet" in refusal(session, PROPOSAL).message
    add_hypothesis(session)
    check(session, PROPOSAL)
    assert "H1" in refusal(session, {**PROPOSAL, "hypothesis": "H7"}).message


def test_a_program_need_not_cite_one(tmp_path: Path) -> None:
    with session_in(tmp_path, brain="search") as session:
        check(session, {**PROPOSAL, "hypothesis": ""})


def test_so_many_proposals_without_an_observation_are_enough(session: Session) -> None:
    add_hypothesis(session)
    for number in range(BLIND_PROPOSALS):
        check(session, PROPOSAL)
        add_candidate(session, f"C{number + 1}")
    assert refusal(session, PROPOSAL).code == "no_observation"
    add_window(session, "C1", 30.0, "screen")
    check(session, PROPOSAL)


def test_the_same_configuration_is_refused_with_its_earlier_result(session: Session) -> None:
    add_hypothesis(session)
    with pytest.raises(ActionError):
        execute(session, ACTION.validate_python({**PROPOSAL, "base": "stock", "hypothesis": "H2"}), "agent")
    session.ledger.append(_same_as_proposed(session))
    give_verdict(session, "C1", "rejected", 0.8)
    with pytest.raises(ActionError, match="C1 .*rejected on rung load: three blocks") as caught:
        execute(session, ACTION.validate_python({**PROPOSAL, "base": "stock"}), "agent")
    assert caught.value.code == "repeat"


def _same_as_proposed(session: Session) -> k.CandidateProposed:
    from infra_agent.changes.change import settings_digest

    settings = {**STACK.launch.parameters, "dtype": "float32"}
    return k.CandidateProposed(
        id="C1", title="data type = float32", hypothesis="H1", base="stock",
        changes=({"parameter": "dtype", "value": "float32", "before": None},),
        settings=settings, digest=settings_digest(session.state.started.stack_digest, settings), risk="numerics",
        risk_reasons=(), family="dtype", lane="agent",
    )  # fmt: skip


def test_a_hypothesis_that_was_stated_before_is_refused_whatever_its_spacing_and_case(session: Session) -> None:
    check(session, HYPOTHESIS)
    add_hypothesis(session)
    error = refusal(session, HYPOTHESIS)
    assert error.code == "repeat"
    assert "H1" in error.message
    assert "not tested yet" in error.message
    check(session, {**HYPOTHESIS, "cause": "another cause"})


@pytest.mark.parametrize(
    ("prediction", "named"),
    [
        ({"rung": "micro", "metric": "x"}, "load"),
        ({"rung": "load", "metric": "output_tok_per_sec"}, "output_tok_per_s"),
        ({"rung": "load", "metric": "happiness"}, "measured there"),
    ],
)
def test_a_prediction_that_nothing_can_measure_is_refused(
    session: Session, prediction: dict[str, Any], named: str
) -> None:
    error = refusal(session, {**HYPOTHESIS, "predictions": [{"low": 1.0, "high": 2.0, **prediction}]})
    assert error.code == "unmeasurable"
    assert named in error.message


def test_a_refuting_probe_that_does_not_exist_is_refused(session: Session) -> None:
    error = refusal(session, {**HYPOTHESIS, "refuting_probe": "crystal ball"})
    assert "overlap" in error.message


def take(session: Session, document: dict[str, Any], times: int) -> None:
    action = ACTION.validate_python(document).model_dump(mode="json")
    for _ in range(times):
        session.ledger.append(k.ActionTaken(turn=session.state.turns, action=action))


def test_measuring_the_same_again_and_again_is_refused(session: Session) -> None:
    measure = {"kind": "measure", "probe": "load", "target": "stock"}
    take(session, measure, SAME_MEASUREMENTS)
    assert refusal(session, measure).code == "repeat"
    check(session, {**measure, "target": "best"})


def test_looking_without_ever_testing_is_refused(session: Session) -> None:
    take(session, {"kind": "consult"}, IDLE_ACTIONS)
    assert refusal(session, {"kind": "consult"}).code == "idle"
    assert refusal(session, HYPOTHESIS).code == "idle"
    take(session, {"kind": "measure", "probe": "load"}, 1)
    check(session, {"kind": "consult"})


def test_concluding_early_is_refused_with_the_budget_and_every_untried_family(session: Session) -> None:
    error = refusal(session, conclude())
    assert error.code == "conclude_refused"
    assert error.message.startswith("conclude_refused: ")
    for family in ("batching", "dtype", "threads"):
        assert family in error.message
    assert "graphs" not in error.message


def test_concluding_with_a_reason_for_every_family_is_allowed_and_the_reasons_are_kept(session: Session) -> None:
    action = ACTION.validate_python(conclude(skip("batching"), skip("dtype", "ruled_out", "O1"), skip("threads")))
    execute(session, action, "agent")
    assert {name: s.disposition for name, s in session.state.skipped.items()} == {
        "batching": "not_worth_it", "dtype": "ruled_out", "threads": "not_worth_it",
    }  # fmt: skip
    statuses = {f.family: f.status for f in build_dossier(session, "agent").families}
    assert statuses["dtype"] == "skipped"
    execute(session, action, "agent")


@pytest.mark.parametrize(
    ("skipped", "named"),
    [
        ((skip("batching"),), "dtype"),
        ((skip("batching"), skip("batching")), "twice"),
        ((skip("everything"),), "untried: batching"),
        ((skip("graphs"),), "no untried family"),
        ((skip("batching", "ruled_out"),), "needs the observations"),
        ((skip("batching", "ruled_out", "O99"),), "O99"),
    ],
)
def test_a_reason_that_is_none_is_refused(session: Session, skipped: tuple[dict[str, Any], ...], named: str) -> None:
    assert named in refusal(session, conclude(*skipped)).message


def test_a_family_that_was_tried_needs_no_reason(session: Session) -> None:
    add_candidate(session)
    error = refusal(session, conclude())
    assert "batching" not in error.message
    assert "dtype" in error.message


def test_nothing_may_be_concluded_before_stock_was_measured(tmp_path: Path) -> None:
    with session_in(tmp_path, brain="llm") as session:
        error = refusal(session, conclude(skip("batching"), skip("dtype"), skip("threads")))
    assert "measure it" in error.message


def test_without_budget_left_a_conclusion_is_taken_as_it_is(tmp_path: Path) -> None:
    with session_in(tmp_path, brain="llm", budget_s=5.0) as session:
        add_baseline(session)
        check(session, conclude())


def test_a_script_that_concludes_at_once_is_refused_and_its_end_gives_a_reason_per_family(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        reason = pursue(session, ScriptBrain([ACTION.validate_python(conclude())]), "agent")
        state = session.state
    assert [refused.code for refused in state.refused] == ["conclude_refused"]
    assert reason == "the script has ended"
    assert {skipped.reason for skipped in state.skipped.values()} == {"the script ended before it"}


def test_the_plain_search_of_the_honesty_row_is_bound_by_no_rule(session: Session) -> None:
    require_conduct(session, ACTION.validate_python(conclude()), build_dossier(session, "honesty"))
    execute(session, ACTION.validate_python(conclude()), "honesty")
    assert not session.state.skipped
