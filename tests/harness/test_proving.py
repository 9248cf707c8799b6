"""Blocks: both orders in each pair, fresh seeds, what voids one, and what a look is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent.dossiers import GOAL
from agent.sessions import STACK, add_candidate, add_window, session_in
from harness.recorded import Window, recorded, steady

from infra_agent.changes.change import STOCK
from infra_agent.errors import StackError
from infra_agent.goal.model import Constraints, Limit, Metric, Statistic
from infra_agent.harness.proving import MAX_DISTURBED_IN_A_ROW, look_at, measure_blocks
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import judge_candidate
from infra_agent.judge.plan import plan_blocks
from infra_agent.judge.types import Decision
from infra_agent.ledger import kinds as k


def prove(session: Session, max_blocks: int = 16) -> Any:
    add_candidate(session)
    return look_at(session, "C1", STOCK, "prove", "agent", max_blocks)


def blocks(session: Session) -> list[k.BlockMeasured]:
    return list(session.state.candidates["C1"].blocks)


def quiet_start(session: Session) -> None:
    """Baseline and screen: windows in which nobody else was at work."""
    for _ in range(2):
        observation = Window(value=25.0).observation()
        add_window(session, "stock", 25.0)
        session.ledger.append(
            k.ObservationMade(
                id=f"O{len(session.state.observations) + 1}", candidate="stock", lane="agent", purpose="measure",
                observation={"probe": "load", "verdict": "pass", "signals": dict(observation.signals)},
            )
        )  # fmt: skip


def test_each_pair_of_blocks_has_both_orders_from_the_runs_seed_and_two_fresh_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = recorded(monkeypatch, steady(1.0))
    with session_in(tmp_path) as session:
        add_candidate(session)
        measure_blocks(session, "C1", STOCK, "prove", "agent", 6)
        made = blocks(session)
    planned = plan_blocks(7, 6)
    assert [block.order for block in made] == [(b.order[0].value, b.order[1].value) for b in planned]
    assert all(one.order == tuple(reversed(two.order)) for one, two in zip(made[::2], made[1::2], strict=True))
    assert [seed for _, seed in launches.made] == [b.seed for b in planned for _ in range(2)]
    firsts = ["C1" if block.order[0] == "candidate" else STOCK for block in made]
    assert [which for which, _ in launches.made[::2]] == firsts


def test_a_hog_in_block_four_of_nine_voids_it_and_changes_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def window(which: str, number: int) -> Window:
        made = steady(1.04)(which, number)
        hog = number == 6
        slow = 0.6 if hog else 1.0
        return Window(value=made.value * slow, others=0.98 if hog else 0.05, names="hog (pid 7) 97% of a core")

    ends = []
    for folder, measured in (("calm", steady(1.04)), ("hog", window)):
        recorded(monkeypatch, measured)
        with session_in(tmp_path / folder) as session:
            quiet_start(session)
            look = prove(session)
            made = blocks(session)
        ends.append((look.decision, look.blocks))
    assert ends[0] == ends[1] == (Decision.ACCEPTED, 6)
    voided = [block for block in made if not block.valid]
    assert [block.index for block in voided] == [3]
    assert voided[0].reason.startswith("neighbour: hog (pid 7) 97% of a core")
    assert (voided[0].base_value, voided[0].candidate_value) == (None, None)
    valid = [block for block in made if block.valid]
    assert [block.index for block in valid] == [0, 1, 2, 4, 5, 6]
    assert valid[3].order == voided[0].order
    assert valid[3].seed != voided[0].seed


def test_a_neighbour_that_is_always_there_is_part_of_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, lambda which, number: Window(value=25.0 + number % 3, others=1.2 + 0.1 * (number % 2)))
    with session_in(tmp_path) as session:
        add_candidate(session)
        measure_blocks(session, "C1", STOCK, "prove", "agent", 6)
        assert all(block.valid for block in blocks(session))


def test_neighbours_that_never_leave_end_a_proof_undecided_and_blame_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def window(which: str, number: int) -> Window:
        return Window(value=25.0, others=0.05 if number < 8 else 0.5 + number)

    recorded(monkeypatch, window)
    with session_in(tmp_path) as session:
        add_candidate(session)
        with pytest.raises(StackError, match="disturbed from outside") as stopped:
            measure_blocks(session, "C1", STOCK, "prove", "agent", 9)
        voided = [block for block in blocks(session) if not block.valid]
    assert len(voided) == MAX_DISTURBED_IN_A_ROW
    assert "neighbours" in stopped.value.hint


def test_a_proof_that_ends_in_disturbances_blames_no_candidate_for_an_earlier_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def window(which: str, number: int) -> Window:
        return Window(value=25.0, others=0.05 if number < 8 else 0.5 + number)

    recorded(monkeypatch, window)
    with session_in(tmp_path) as session:
        add_candidate(session)
        failed = k.BlockMeasured(
            candidate="C1", base=STOCK, stage="prove", index=0, order=("base", "candidate"), seed=1, valid=False,
            reason="candidate arm: the engine died",
        )  # fmt: skip
        session.ledger.append(failed)
        judge_candidate(session, "C1", "agent")
        verdict = session.state.candidates["C1"].verdict
    assert verdict is not None
    assert (verdict.decision, verdict.cause) == ("inconclusive", "unclear")
    assert "disturbed from outside" in verdict.reason


def test_a_stack_may_ask_to_measure_in_spite_of_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, lambda which, number: Window(value=25.0, others=0.05 if number < 8 else 1.0))
    limits = STACK.limits.model_copy(update={"neighbours": "record"})
    with session_in(tmp_path, stack=STACK.model_copy(update={"limits": limits})) as session:
        add_candidate(session)
        measure_blocks(session, "C1", STOCK, "prove", "agent", 6)
        assert all(block.valid for block in blocks(session))


def test_a_client_that_woke_late_is_not_the_candidates_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def window(which: str, number: int) -> Window:
        return Window(value=25.0, late=which != STOCK and number in (1, 2, 4, 5))

    recorded(monkeypatch, window)
    with session_in(tmp_path) as session:
        add_candidate(session)
        measure_blocks(session, "C1", STOCK, "prove", "agent", 3)
        voided = [block.reason for block in blocks(session) if not block.valid]
    assert len(voided) >= 2
    assert all(reason.startswith("client late") for reason in voided)


def test_rare_stalls_do_not_hide_a_gain_and_are_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def window(which: str, number: int) -> Window:
        made = steady(1.05)(which, number)
        return Window(value=made.value, loss=0.36 if number in (3, 8) else 0.0)

    recorded(monkeypatch, window)
    with session_in(tmp_path) as session:
        look = prove(session)
        recorded_look = session.state.candidates["C1"].looks[-1]
    assert look.decision is Decision.ACCEPTED
    assert look.estimate.ratio == pytest.approx(1.05, rel=0.01)
    assert recorded_look.basis == "stall-free"
    assert (recorded_look.base_stalls or 0) + (recorded_look.candidate_stalls or 0) == 2
    assert {guard.name for guard in recorded_look.guards} == {"stalls", "gain net of stalls"}


def test_a_candidate_that_stalls_in_every_run_is_not_saved_by_leaving_stalls_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def window(which: str, number: int) -> Window:
        made = steady(1.3)(which, number)
        return Window(value=made.value, loss=0.36 if which != STOCK else 0.0)

    recorded(monkeypatch, window)
    with session_in(tmp_path) as session:
        look = prove(session)
    assert look.decision is Decision.REJECTED or (look.decision is None and look.estimate.ratio < 1)
    assert look.estimate.ratio == pytest.approx(1.3 * 0.64, rel=0.02)


CONSTRAINED = GOAL.model_copy(
    update={
        "constraints": Constraints(
            limits=(Limit(metric=Metric.TTFT_S, statistic=Statistic.MEAN, bound="at_most", value=1.05, kind="ratio"),)
        )
    }
)


@pytest.mark.parametrize(
    ("ttft_ratio", "decision", "why"),
    [
        (0.98, Decision.ACCEPTED, "proved"),
        (1.2, Decision.REJECTED, "infeasible"),
        (1.05, Decision.INCONCLUSIVE, "unclear"),
    ],
)
def test_a_constraint_is_judged_on_the_same_blocks_and_must_be_shown_to_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ttft_ratio: float, decision: Decision, why: str
) -> None:
    def window(which: str, number: int) -> Window:
        made = steady(1.5)(which, number)
        wobble = 1 + 0.004 * ((number * 3) % 7 - 3)
        return Window(value=made.value, extra={"ttft_s": 0.4 * wobble * (ttft_ratio if which != STOCK else 1.0)})

    recorded(monkeypatch, window)
    with session_in(tmp_path, goal=CONSTRAINED) as session:
        look = prove(session)
    assert (look.decision, look.cause) == (decision, why)
    assert look.guards[0].name == "ttft_s at most x1.05 of the base"
    if decision is Decision.ACCEPTED:
        assert look.blocks > 3  # three launches cannot show that 5 % is kept


def test_a_figure_that_a_constraint_needs_and_no_block_has_never_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch, steady(1.5))
    with session_in(tmp_path, goal=CONSTRAINED) as session:
        look = prove(session)
    assert look.decision is Decision.INCONCLUSIVE
    assert "could not be measured in every block" in look.reason
