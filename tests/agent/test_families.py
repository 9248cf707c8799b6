from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.dossiers import BATCHING, DTYPE, GOAL, candidate, parameter

from infra_agent.agent.dossier import CodeView
from infra_agent.agent.families import Levers, family_views, untried_families
from infra_agent.goal.model import Goal, Scope
from infra_agent.ledger import kinds as k
from infra_agent.stack.model import Stack

THREADS = parameter("omp_num_threads", "threads", default=None)
ENVIRONMENT = type(THREADS)(**{**{f: getattr(THREADS, f) for f in THREADS.__slots__}, "flag": "env:OMP_NUM_THREADS"})
CLOSED = CodeView()
SPACE = {"continuous_batching": (True,), "omp_num_threads": (1, 4)}


def views(
    goal: Goal = GOAL, candidates: Any = (), skipped: Any = None, code: CodeView = CLOSED
) -> dict[str, tuple[str, str]]:
    levers = Levers(
        goal=goal, stack=Stack(name="s", engine="e", space=SPACE), parameters=(BATCHING, DTYPE, ENVIRONMENT),
        candidates=candidates, skipped=skipped or {}, code=code,
    )  # fmt: skip
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


OPEN = CodeView(closed="", sources=("s",), files=("a.py", "b.py"), total=2)


def test_the_workload_is_frozen_and_code_is_open_where_files_may_be_patched() -> None:
    assert views()["workload"][0] == "closed"
    assert views()["code"] == ("closed", "the goal's scope allows no code changes")
    assert views(code=OPEN)["code"] == ("untried", "2 files may be patched")
    assert views(code=OPEN)["kernels"][0] == "closed"


def test_a_patch_tries_code_whatever_its_hypothesis_calls_it_and_kernels_when_it_changes_one() -> None:
    code = replace(OPEN, files=(*OPEN.files, "csrc/rope.cu"), total=3, kernels=True)
    assert views(code=code)["kernels"][0] == "untried"
    patch = replace(candidate("C1", {}, family="scheduling"), patched=("a.py",))
    found = views(candidates=(patch,), code=code)
    assert (found["code"], found["kernels"][0]) == (("tried", "C1 screened"), "untried")
    kernel = replace(patch, patched=("csrc/rope.cu",))
    assert views(candidates=(kernel,), code=code)["kernels"][0] == "tried"


def test_variables_of_the_environment_are_a_group_of_their_own() -> None:
    levers = Levers(
        goal=GOAL, stack=Stack(name="s", engine="e"), parameters=(BATCHING, ENVIRONMENT), candidates=(), skipped={},
        code=CodeView(),
    )  # fmt: skip
    assert {view.family: view.group for view in family_views(levers)} == {
        "batching": "parameter", "threads": "environment", "code": "code", "kernels": "kernels", "workload": "workload",
    }  # fmt: skip
