from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.dossiers import GOAL
from agent.sessions import STACK, add_candidate, session_in

from infra_agent.agent.actions import ACTION
from infra_agent.agent.brains.script import ScriptBrain
from infra_agent.agent.execute import ActionError, execute
from infra_agent.agent.loop import pursue
from infra_agent.goal.model import Scope
from infra_agent.harness.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_in(tmp_path) as made:
        yield made


def propose(**change: Any) -> dict[str, Any]:
    return {"kind": "propose", "hypothesis": "", "changes": [change], "base": "stock"}


REFUSED = {
    "a name outside the space": (propose(parameter="device", value="cpu"), "search space"),
    "a misspelt name": (propose(parameter="continous_batching", value=True), "continuous_batching"),
    "a value outside the space": (propose(parameter="omp_num_threads", value=64), "1, 4"),
    "a value of another type": (propose(parameter="omp_num_threads", value=True), "not allowed"),
    "an unknown hypothesis": ({**propose(parameter="dtype", value="float32"), "hypothesis": "H9"}, "H9"),
    "an unknown candidate": ({"kind": "prove", "candidate": "C7"}, "C7"),
    "an unknown probe": ({"kind": "measure", "probe": "magic", "target": "stock"}, "load"),
    "an unknown target": ({"kind": "measure", "probe": "load", "target": "C9"}, "C9"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_action_outside_the_scope_is_refused_with_the_reason_and_starts_nothing(session: Session, case: str) -> None:
    document, named = REFUSED[case]
    with pytest.raises(ActionError) as caught:
        execute(session, ACTION.validate_python(document), "agent")
    assert named in caught.value.message
    assert not session.state.launches
    assert not session.state.candidates


def test_the_same_parameter_twice_in_one_candidate_is_refused(session: Session) -> None:
    changes = [{"parameter": "omp_num_threads", "value": value} for value in (1, 4)]
    document = {"kind": "propose", "hypothesis": "", "changes": changes, "base": "stock"}
    with pytest.raises(ActionError, match="twice"):
        execute(session, ACTION.validate_python(document), "agent")


def test_a_candidate_that_was_not_screened_cannot_go_to_the_judge(session: Session) -> None:
    add_candidate(session)
    with pytest.raises(ActionError, match="not been screened"):
        execute(session, ACTION.validate_python({"kind": "prove", "candidate": "C1"}), "agent")


def test_a_goal_without_parameter_scope_allows_no_parameter(tmp_path: Path) -> None:
    goal = GOAL.model_copy(update={"scope": Scope(parameters=False)})
    document = propose(parameter="dtype", value="float32")
    with session_in(tmp_path, goal) as session, pytest.raises(ActionError, match="scope"):
        execute(session, ACTION.validate_python(document), "agent")


def test_refusals_are_in_the_ledger_are_counted_as_turns_and_end_the_run_after_ten_in_a_row(session: Session) -> None:
    wrong = ACTION.validate_python(propose(parameter="device", value="cpu"))
    reason = pursue(session, ScriptBrain([wrong] * 50), "agent")
    state = session.state
    assert "10 refused actions" in reason
    assert len(state.refused) == 10
    assert state.turns == 10
    assert not state.launches
    assert STACK.space.keys() >= {"dtype"}
