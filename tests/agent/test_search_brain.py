from __future__ import annotations

from dataclasses import replace

from agent.dossiers import EMPTY, MEASURED, candidate

from infra_agent.agent.actions import Action, ConcludeAction, MeasureAction, ProposeAction, ProveAction
from infra_agent.agent.brains.search import SearchBrain
from infra_agent.agent.dossier import Dossier


def test_it_measures_stock_before_it_samples() -> None:
    assert SearchBrain().next(EMPTY) == MeasureAction(probe="load", target="stock")


def test_it_never_proposes_the_same_configuration_twice_and_covers_a_small_space() -> None:
    proposed, last = _play(SearchBrain(screen_s=1e9), MEASURED, screen="reject")
    assert len(proposed) == len(set(proposed)) == 2 * 2 * 3 - 1
    assert isinstance(last, ConcludeAction)


def test_the_same_seed_draws_the_same_configurations_and_another_seed_others() -> None:
    first, _ = _play(SearchBrain(screen_s=120.0), MEASURED)
    again, _ = _play(SearchBrain(screen_s=120.0), MEASURED)
    other, _ = _play(SearchBrain(screen_s=120.0), replace(MEASURED, seed=8))
    assert first == again != other


def test_sampling_stops_at_its_share_of_the_screening_time() -> None:
    proposed, _ = _play(SearchBrain(screen_s=100.0), MEASURED)
    assert len(proposed) == 5  # 15 s each, until 70 of 100 s are spent


def test_the_better_half_is_measured_again_before_anything_is_proved() -> None:
    sampled = tuple(
        candidate(f"C{i}", {"omp_num_threads": i}, screen_ratio=1.0 + i / 10, cost_s=20.0) for i in range(1, 5)
    )
    dossier = replace(MEASURED, candidates=sampled)
    action = SearchBrain(screen_s=100.0).next(dossier)
    assert action == MeasureAction(probe="load", target="C4")


def test_the_best_by_repeated_measurement_is_proved() -> None:
    lucky = candidate("C1", {"dtype": "float32"}, screen_ratio=1.1, measurements=2, cost_s=50.0)
    better = candidate("C2", {"continuous_batching": True}, screen_ratio=2.8, measurements=2, cost_s=50.0)
    action = SearchBrain(screen_s=90.0).next(replace(MEASURED, candidates=(lucky, better)))
    assert action == ProveAction(candidate="C2")


def test_in_the_honesty_row_it_leaves_the_judging_to_the_harness() -> None:
    better = candidate("S1", screen_ratio=2.8, measurements=2, cost_s=100.0)
    action = SearchBrain(screen_s=90.0, judges=False).next(replace(MEASURED, candidates=(better,)))
    assert isinstance(action, ConcludeAction)


def test_nothing_better_than_stock_ends_without_a_proof() -> None:
    worse = candidate(screen="reject", status="rejected", screen_ratio=0.7, cost_s=100.0)
    action = SearchBrain(screen_s=90.0).next(replace(MEASURED, candidates=(worse,)))
    assert isinstance(action, ConcludeAction)


def _play(brain: SearchBrain, dossier: Dossier, screen: str = "promote") -> tuple[list[object], Action]:
    proposed: list[object] = []
    for turn in range(1, 60):
        action = brain.next(dossier)
        if not isinstance(action, ProposeAction):
            return proposed, action
        changes = {change.parameter: change.value for change in action.changes}
        proposed.append(tuple(sorted(changes.items())))
        status = "screened" if screen == "promote" else "rejected"
        seen = candidate(f"C{turn}", changes, screen=screen, status=status, screen_ratio=1.1, cost_s=15.0)
        dossier = replace(dossier, candidates=(*dossier.candidates, seen))
    raise AssertionError("the search does not end")


def test_it_stops_sampling_when_the_ceiling_of_launches_leaves_no_room() -> None:
    assert isinstance(SearchBrain().next(replace(MEASURED, launches_left=2.0)), ProposeAction)
    assert isinstance(SearchBrain().next(replace(MEASURED, launches_left=1.0)), ConcludeAction)
