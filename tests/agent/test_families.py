from __future__ import annotations

from typing import Any

import pytest
from agent.dossiers import BATCHING, DTYPE, GOAL, candidate, parameter

from infra_agent.agent.actions import ProposeAction
from infra_agent.agent.families import Levers, family_views, untried_families
from infra_agent.goal.model import Goal, Scope
from infra_agent.ledger import kinds as k
from infra_agent.stack.model import Stack

THREADS = parameter("omp_num_threads", "threads", default=None)
ENVIRONMENT = type(THREADS)(**{**{f: getattr(THREADS, f) for f in THREADS.__slots__}, "flag": "env:OMP_NUM_THREADS"})
SPACE = {"continuous_batching": (True,), "omp_num_threads": (1, 4)}


def views(goal: Goal = GOAL, candidates: Any = (), skipped: Any = None, **stack: Any) -> dict[str, tuple[str, str]]:
    given = Stack(name="s", engine="e", space=stack.pop("space", SPACE), **stack)
    levers = Levers(
        goal=goal, stack=given, parameters=(BATCHING, DTYPE, ENVIRONMENT), candidates=candidates, skipped=skipped or {}
    )
    found = family_views(levers)
    assert {view.family for view in untried_families(found)} == {v.family for v in found if v.status == "untried"}
    return {view.family: (view.status, view.detail) for view in found}


def test_a_family_is_open_while_the_space_has_a_value_of_it_and_nothing_was_tried() -> None:
    found = views()
    assert found["batching"] == ("untried", "continuous_batching: True")
    assert found["threads"] == ("untried", "omp_num_threads: 1, 4")
    assert found["dtype"] == ("closed", "not in the stack's space")


def test_one_candidate_makes_it_tried_also_one_that_changes_several_families() -> None:
    both = candidate("C3", {"continuous_batching": True, "omp_num_threads": 1}, family="batching,threads")
    found = views(candidates=(both,))
    assert found["batching"][0] == found["threads"][0] == "tried"
    assert found["batching"][1] == "C3 screened"


def test_a_reason_makes_it_skipped() -> None:
    given = k.FamilySkipped(family="threads", disposition="ruled_out", reason="cores idle", evidence=("O1",))
    assert views(skipped={"threads": given})["threads"] == ("skipped", "ruled_out: cores idle")


def test_a_goal_may_leave_parameters_alone() -> None:
    goal = GOAL.model_copy(update={"scope": Scope(parameters=False)})
    assert {views(goal)[name][0] for name in ("batching", "threads", "dtype")} == {"closed"}


def test_the_workload_is_frozen_and_code_needs_scope_sources_and_a_way_to_change_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert views()["workload"][0] == "closed"
    assert "scope" in views()["code"][1]
    goal = GOAL.model_copy(update={"scope": Scope(code=True)})
    assert "sources" in views(goal)["code"][1]
    monkeypatch.setattr(ProposeAction, "model_fields", {**ProposeAction.model_fields, "diff": None})
    assert views(goal, sources=("/src",))["code"][0] == "untried"
    assert views(goal, sources=("/src",))["kernels"][0] == "untried"


def test_variables_of_the_environment_are_a_group_of_their_own() -> None:
    levers = Levers(
        goal=GOAL, stack=Stack(name="s", engine="e"), parameters=(BATCHING, ENVIRONMENT), candidates=(), skipped={}
    )
    assert {view.family: view.group for view in family_views(levers)} == {
        "batching": "parameter", "threads": "environment", "code": "code", "kernels": "kernels", "workload": "workload",
    }  # fmt: skip
