from __future__ import annotations

from dataclasses import replace

import pytest
from agent.dossiers import EMPTY, MEASURED, SERIAL, candidate, hypothesis

from infra_agent.agent.actions import (
    Action,
    ConcludeAction,
    HypothesiseAction,
    MeasureAction,
    ParameterChange,
    ProposeAction,
    ProveAction,
)
from infra_agent.agent.brains.playbook import PlaybookBrain
from infra_agent.agent.dossier import Dossier
from infra_agent.library.playbooks import load_playbooks


@pytest.fixture
def brain() -> PlaybookBrain:
    return PlaybookBrain(load_playbooks())


def test_it_measures_stock_before_anything_else(brain: PlaybookBrain) -> None:
    assert brain.next(EMPTY) == MeasureAction(probe="load", target="stock")


def test_serial_service_leads_to_the_batching_hypothesis_first(brain: PlaybookBrain) -> None:
    action = brain.next(MEASURED)
    assert isinstance(action, HypothesiseAction)
    assert (action.family, action.source) == ("batching", "playbook:serial-admission")
    assert action.predictions[0].low > 1


def test_without_the_symptom_the_batching_page_stays_closed(brain: PlaybookBrain) -> None:
    action = brain.next(replace(MEASURED, signals={**SERIAL, "serialised": False}))
    assert isinstance(action, HypothesiseAction)
    assert action.source != "playbook:serial-admission"


def test_a_signal_that_was_not_measured_never_counts_as_a_symptom(brain: PlaybookBrain) -> None:
    action = brain.next(replace(MEASURED, signals={}))
    assert isinstance(action, HypothesiseAction)
    assert action.source not in ("playbook:serial-admission", "playbook:host-threads")


def test_a_stated_hypothesis_is_tested_by_one_change_on_the_best(brain: PlaybookBrain) -> None:
    stated = hypothesis("H1", "batching", "playbook:serial-admission")
    action = brain.next(replace(MEASURED, hypotheses=(stated,)))
    change = ParameterChange(parameter="continuous_batching", value=True)
    assert action == ProposeAction(hypothesis="H1", changes=(change,), base="best")


def test_a_promising_screen_goes_to_the_judge_before_the_next_lever(brain: PlaybookBrain) -> None:
    stated = hypothesis("H1", "batching", "playbook:serial-admission")
    action = brain.next(replace(MEASURED, hypotheses=(stated,), candidates=(candidate(),)))
    assert action == ProveAction(candidate="C1")


def test_a_gain_that_the_time_left_cannot_show_is_not_taken_to_the_judge(brain: PlaybookBrain) -> None:
    faint = candidate(screen_ratio=1.012)
    action = brain.next(replace(MEASURED, candidates=(faint,), noise_sd_log=0.05))
    assert not isinstance(action, ProveAction)


def test_after_the_goal_is_reached_small_gains_are_left_alone(brain: PlaybookBrain) -> None:
    small = candidate("C2", {"omp_num_threads": 4}, family="threads", screen_ratio=1.04)
    reached = replace(MEASURED, candidates=(small,), noise_sd_log=0.005, goal_reached=True)
    assert not isinstance(brain.next(reached), ProveAction)
    assert isinstance(brain.next(replace(reached, goal_reached=False)), ProveAction)


def test_it_concludes_when_no_budget_is_left_for_another_candidate(brain: PlaybookBrain) -> None:
    action = brain.next(replace(MEASURED, elapsed_s=1075.0))
    assert isinstance(action, ConcludeAction)
    assert "no budget left" in action.reason


def test_every_lever_of_the_space_is_tried_once_and_then_it_concludes(brain: PlaybookBrain) -> None:
    tried, action = _play(brain, MEASURED)
    assert sorted(tried) == [
        ("continuous_batching", True),
        ("dtype", "float32"),
        ("omp_num_threads", 1),
        ("omp_num_threads", 4),
    ]
    assert isinstance(action, ConcludeAction)


def test_the_same_dossier_gives_the_same_action(brain: PlaybookBrain) -> None:
    assert brain.next(MEASURED) == PlaybookBrain(load_playbooks()).next(MEASURED)


def _play(brain: PlaybookBrain, dossier: Dossier) -> tuple[list[tuple[str, object]], Action]:
    """Answer every action as a harness would whose candidates are all rejected."""
    tried: list[tuple[str, object]] = []
    for turn in range(40):
        action = brain.next(dossier)
        if isinstance(action, HypothesiseAction):
            stated = hypothesis(f"H{len(dossier.hypotheses) + 1}", action.family, action.source)
            dossier = replace(dossier, hypotheses=(*dossier.hypotheses, stated))
        elif isinstance(action, ProposeAction):
            change = action.changes[0]
            tried.append((change.parameter, change.value))
            ended = candidate(f"C{turn}", {change.parameter: change.value}, status="rejected", screen="reject")
            dossier = replace(dossier, candidates=(*dossier.candidates, ended))
        else:
            return tried, action
    raise AssertionError("the brain does not conclude")


def test_it_concludes_when_the_ceiling_of_launches_leaves_no_room_for_another_candidate(brain: PlaybookBrain) -> None:
    stated = replace(MEASURED, hypotheses=(hypothesis("H1", "batching", "playbook:serial-admission"),))
    assert isinstance(brain.next(replace(stated, launches_left=2.0)), ProposeAction)
    assert isinstance(brain.next(replace(stated, launches_left=1.0)), ConcludeAction)
