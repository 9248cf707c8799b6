from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.sessions import add_baseline, add_hypothesis, give_verdict, session_in

from infra_agent.agent import execute as executing
from infra_agent.agent.actions import ACTION, ProposeAction
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.searching import run_search
from infra_agent.harness.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_in(tmp_path, brain="llm", budget_s=20_000.0) as made:
        add_baseline(made)
        add_hypothesis(made)
        yield made


def search(**fields: Any) -> Any:
    return ACTION.validate_python({"kind": "search", "hypothesis": "H1", "minutes": 5, **fields})


def tried(session: Session) -> list[dict[str, Any]]:
    return [{c["parameter"]: c["value"] for c in x.proposed.changes} for x in session.state.candidates.values()]


def carry(session: Session) -> Any:
    """Proposes as the harness does; the climb is an invalid launch."""

    def step(action: Any) -> None:
        assert isinstance(action, ProposeAction)
        assert action.hypothesis == "H1"
        give_verdict(session, executing._propose(session, action, "agent"), "invalid")

    return step


def test_every_configuration_of_the_named_parameters_is_tried_once_for_the_cited_hypothesis(session: Session) -> None:
    run_search(session, search(parameters=("dtype", "omp_num_threads")), 3, carry(session))
    found = tried(session)
    assert len(found) == 5
    assert all(set(changes) <= {"dtype", "omp_num_threads"} for changes in found)
    assert {c.proposed.hypothesis for c in session.state.candidates.values()} == {"H1"}
    started = session.state.searches[-1]
    assert (started.turn, started.parameters, started.minutes) == (3, ("dtype", "omp_num_threads"), 5)


def test_what_was_tried_before_is_not_tried_again(session: Session) -> None:
    step = carry(session)
    step(ACTION.validate_python({
        "kind": "propose", "hypothesis": "H1", "base": "stock", "changes": [{"parameter": "dtype", "value": "float32"}],
    }))  # fmt: skip
    run_search(session, search(parameters=("dtype",)), 1, step)
    assert len(tried(session)) == 1


def test_a_search_that_a_kill_cut_off_goes_on_under_the_same_start(session: Session) -> None:
    run_search(session, search(parameters=("dtype",)), 3, carry(session))
    run_search(session, search(parameters=("dtype",)), 3, carry(session))
    assert len(session.state.searches) == 1
    assert len(tried(session)) == 1


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"parameters": ("device",)}, "search space"),
        ({"parameters": ("dtipe",)}, "did you mean 'dtype'"),
        ({"minutes": 599}, "minutes are asked for"),
    ],
)
def test_a_search_outside_space_or_budget_is_refused(session: Session, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ActionError, match=named):
        run_search(session, search(**fields), 1, carry(session))
    assert not session.state.searches


def test_a_configuration_that_is_refused_is_not_drawn_for_ever(session: Session) -> None:
    def refuse(_: Any) -> None:
        raise ActionError("no")

    run_search(session, search(), 1, refuse)
    assert not tried(session)
