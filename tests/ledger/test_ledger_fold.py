from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ledger_samples as s
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.errors import LedgerError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.fold import fold, step
from infra_agent.ledger.store import Ledger

pytestmark = pytest.mark.requirement("L3")


def state_of(*payloads: k.EventData | tuple[str, dict[str, Any]]):
    return fold(s.chained(*payloads))


def test_a_whole_run_folds_into_what_happened():
    events = s.chained(*s.story())
    state = fold(events)
    assert state.started == s.started()
    assert state.started_ts == events[0].ts
    assert [at.seq for at in state.events] == list(range(1, len(events) + 1))
    assert [at.data for at in state.events] == s.story()
    assert (state.head_seq, state.head_hash) == (len(events), events[-1].hash)
    assert state.phase == "done"
    assert state.best == "C1"
    assert state.elapsed_s == 300.0
    assert state.sessions == 1
    assert state.noise == s.noise()
    assert state.finished == s.finished()
    assert list(state.observations) == ["O1", "O2"]
    assert list(state.launches) == list(state.launches_ended) == ["L1"]
    assert state.hypotheses == {"H1": s.hypothesis("H1")}
    first, second = state.candidates["C1"], state.candidates["C2"]
    assert first.observations == ("O2",)
    assert (first.seq, first.verdict_seq) == (9, 14)
    assert first.screened == s.screened("C1")
    assert first.blocks == (s.block("C1", 0),)
    assert first.looks == (s.look("C1", 1),)
    assert first.verdict == s.verdict("C1")
    assert first.accepted == s.accepted("C1")
    assert (second.accepted, second.waiting, second.blocks) == (None, None, ())


def test_the_rest_of_the_kinds_reach_their_place():
    honesty = k.HonestyRow(
        method="random",
        agent_screen_s=1,
        search_screen_s=1,
        trials=3,
        best=None,
        decision="none",
        estimate=None,
        reason="",
    )
    final = k.FinalMeasured(
        candidate="C1",
        arms=("stock", "C1"),
        search_seeds=(1,),
        seeds=(2,),
        estimate=s.ESTIMATE,
        stock_value=25.0,
        candidate_value=75.0,
    )
    begun = k.ActionBegun(turn=0, action={"kind": "measure", "probe": "load"})
    adjusted = k.ClaimData(candidate="C1", p=0.001, p_adjusted=0.002, survives=True)
    claims = k.ClaimsAdjusted(family="gain", claims=(adjusted,))
    action = k.ActionTaken(turn=0, action={"kind": "measure", "probe": "load"})
    refused = k.ActionRefused(turn=0, action="measure", error="no such probe")
    interrupted = k.Interrupted(reason="ctrl-c")
    recovered = k.Recovered(dropped_bytes=3, kept_as="events.jsonl.torn-1")
    reserved = k.BudgetReserved(id="B1", what="a launch", amounts={"launches": 1})
    settled = k.BudgetSettled(id="B1", amounts={"launches": 1})
    workspace = k.WorkspaceReady(sources=(), tree="0" * 64, numeric=False, wall_s=0.1)
    told = (s.waiting("C1"), honesty, claims, final, begun, action, refused, s.note(), interrupted, recovered)
    given = (workspace, s.candidate("C1"), *told, reserved, settled, *s.brain_events())
    state = state_of(s.started(), *given)
    assert state.workspace == workspace
    assert state.candidates["C1"].waiting == s.waiting("C1")
    assert (state.honesty, state.final) == (honesty, final)
    assert (state.refused, state.notes) == ((refused,), (s.note(),))
    assert [at.data for at in state.events[1:]] == list(given)
    assert {type(at.data) for at in (*state.events, *state_of(*s.story()).events)} == set(k.KINDS.values()) - {
        k.RunResumed, k.Approved, k.Declined,
    }  # fmt: skip


def test_a_turn_counts_once_whether_its_action_was_taken_refused_or_both():
    def taken(turn: int) -> k.ActionTaken:
        return k.ActionTaken(turn=turn, action={"kind": "conclude"})

    def refused(turn: int) -> k.ActionRefused:
        return k.ActionRefused(turn=turn, action="{}", error="no")

    assert state_of(s.started()).turns == 0
    state = state_of(s.started(), taken(0), refused(0), refused(1), taken(2))
    assert state.turns == 3
    assert state.refused == (refused(0), refused(1))


def test_an_action_is_under_way_from_its_beginning_to_either_of_its_ends():
    begun = k.ActionBegun(turn=0, action={"kind": "conclude"})
    for end in (k.ActionTaken(turn=0, action={}), k.ActionRefused(turn=0, action="", error="no")):
        during = state_of(s.started(), begun)
        assert (during.begun, during.begun_seq, during.turns) == (begun, 2, 0)
        assert state_of(s.started(), begun, end).begun is None
    with pytest.raises(LedgerError, match="the action of turn 0 has not ended"):
        state_of(s.started(), begun, begun)


def test_launches_whose_session_ended_before_their_result_are_void_and_nothing_of_them_stands():
    resumed = k.RunResumed(pid=1, spent_s=1)
    seen = s.observation("O1", "stock", probe="load").model_copy(update={"launch": "L1"})
    other = seen.model_copy(update={"id": "O2", "launch": "L2"})
    begun = [s.started(), s.candidate("C1"), s.launch("L1"), seen, s.launch_ended("L1")]
    assert state_of(*begun, s.launch("L2"), other).unsettled == ("L1", "L2")
    cut = state_of(*begun, s.launch("L2"), other, resumed)
    assert (cut.void, cut.unsettled, cut.standing) == ({"L1", "L2"}, (), ())
    assert set(cut.observations) == {"O1", "O2"}
    for result in (s.block("C1", 0), s.screened("C1"), s.verdict("C1"), s.noise()):
        kept = state_of(*begun, result, resumed)
        assert (kept.void, kept.standing) == (frozenset(), (seen,))
    whole = state_of(*begun, s.block("C1", 0), s.launch("L2"), other, resumed)
    assert (whole.void, whole.standing) == ({"L2"}, (seen,))


def test_blocks_of_all_stages_stay_with_their_candidate():
    stages = ("prove", "prove", "honesty", "final")
    blocks = tuple(s.block("C1", index, stage) for index, stage in enumerate(stages))
    state = state_of(s.started(), s.candidate("C1"), s.candidate("C2"), *blocks)
    assert tuple(block.stage for block in state.candidates["C1"].blocks) == stages
    assert state.candidates["C2"].blocks == ()


def test_later_data_of_a_candidate_replace_earlier_ones():
    state = state_of(
        s.started(),
        s.candidate("C1"),
        s.screened("C1", "unclear"),
        s.screened("C1", "promote"),
        s.verdict("C1", "inconclusive"),
        s.verdict("C1", "accepted"),
        s.noise(0.5),
        s.noise(0.01),
    )
    found = state.candidates["C1"]
    assert found.screened is not None
    assert found.screened.outcome == "promote"
    assert found.verdict is not None
    assert found.verdict.decision == "accepted"
    assert found.verdict_seq == 6
    assert state.noise == s.noise(0.01)


def test_the_best_is_stock_until_a_candidate_is_accepted_and_then_the_last_accepted():
    steps = [s.started(), s.candidate("C1"), s.candidate("C2"), s.verdict("C1"), s.verdict("C2")]
    assert state_of(*steps).best == "stock"
    assert state_of(*steps, s.accepted("C2"), s.accepted("C1")).best == "C1"


def test_a_resumed_run_is_not_finished_and_keeps_its_spent_time():
    resumed = k.RunResumed(pid=9, spent_s=420.0)
    state = state_of(s.started(), s.phase("tuning", 50), s.finished(elapsed_s=300), resumed, s.phase("tuning", 10))
    assert state.finished is None
    assert state.sessions == 2
    assert state.elapsed_s == 420.0
    assert state.phase == "tuning"


def test_an_unknown_kind_is_skipped_but_moves_the_head():
    events = s.chained(s.started(), ("telepathy", {"from": "a later version"}), s.note())
    state = fold(events)
    assert [at.seq for at in state.events] == [1, 3]
    assert fold(events[:2]).head_hash == events[1].hash
    assert fold(events[:2]).head_seq == 2


@pytest.mark.parametrize("events", [[], [s.note()], [("telepathy", {}), s.started()]], ids=["empty", "note", "unknown"])
def test_a_ledger_that_does_not_begin_with_run_started_is_refused(events):
    with pytest.raises(LedgerError):
        state_of(*events)


@pytest.mark.parametrize(
    ("payloads", "says"),
    [
        ([s.started()], r"event 2 \(run_started\).*started already"),
        ([s.verdict("C9")], r"event 2 \(verdict\).*'C9' is unknown"),
        ([s.screened("C9")], r"event 2 \(screened\)"),
        ([s.block("C9", 0)], r"event 2 \(block\)"),
        ([s.look("C9", 3)], r"event 2 \(look\)"),
        ([s.waiting("C9")], r"event 2 \(waiting\)"),
        ([s.accepted("C9")], r"event 2 \(accepted\)"),
        ([s.observation("O1", "C9")], r"event 2 \(observation\)"),
        ([s.candidate("C1", "H9")], r"event 2 \(candidate\).*'H9' was never stated"),
        ([s.candidate("stock")], r"event 2 \(candidate\)"),
        ([s.launch_ended("L1")], r"event 2 \(launch_ended\).*never started"),
        ([s.candidate("C1"), s.accepted("C1")], r"event 3 \(accepted\).*no verdict that accepts"),
        ([s.candidate("C1"), s.verdict("C1", "rejected"), s.accepted("C1")], r"event 4 \(accepted\)"),
        ([s.candidate("C1"), s.candidate("C1")], r"event 3 \(candidate\).*is taken"),
        ([s.hypothesis("H1"), s.hypothesis("H1")], r"event 3 \(hypothesis\)"),
        ([s.observation("O1"), s.observation("O1")], r"event 3 \(observation\)"),
        ([s.launch("L1"), s.launch("L1")], r"event 3 \(launch\)"),
        ([s.launch("L1"), s.launch_ended("L1"), s.launch_ended("L1")], r"event 4 \(launch_ended\)"),
        ([("note", {"topic": "info"})], r"event 2 \(note\) is not well formed: text"),
        ([("note", {"topic": "info", "text": "a", "mood": 1})], r"event 2 \(note\) is not well formed: mood"),
        ([("phase", {"name": "lunch", "elapsed_s": 1})], r"event 2 \(phase\) is not well formed: name"),
    ],
)
def test_an_event_that_cannot_have_happened_is_named(payloads, says):
    with pytest.raises(LedgerError, match=says):
        state_of(s.started(), *payloads)


def test_a_step_leaves_the_state_before_it_untouched():
    state = None
    for event in s.chained(*s.story()):
        before = repr(state)
        after = step(state, event)
        assert repr(state) == before
        state = after


IDS = st.sampled_from(["C1", "C2", "C3"])
SMALL = st.floats(0, 1e6)
EVENTS = st.one_of(
    st.builds(s.candidate, IDS),
    st.builds(s.screened, IDS, st.sampled_from(["promote", "reject", "unclear"])),
    st.builds(s.block, IDS, st.integers(0, 16), st.sampled_from(["prove", "final", "honesty"])),
    st.builds(s.look, IDS, st.integers(1, 16)),
    st.builds(s.verdict, IDS, st.sampled_from(["accepted", "rejected", "inconclusive"]), SMALL),
    st.builds(s.accepted, IDS, SMALL),
    st.builds(s.observation, st.uuids().map(str), st.just("stock") | IDS, value=SMALL, text=st.text(max_size=5)),
    st.builds(s.launch, st.uuids().map(str)),
    st.builds(k.ActionBegun, turn=st.integers(0, 3), action=st.just({"kind": "conclude"})),
    st.builds(k.ActionTaken, turn=st.integers(0, 3), action=st.just({"kind": "conclude"})),
    st.builds(s.phase, st.sampled_from(["baseline", "tuning", "done"]), SMALL),
    st.builds(s.noise, SMALL),
    st.builds(s.note, st.text(max_size=20)),
    st.builds(k.RunResumed, pid=st.integers(1, 9), spent_s=SMALL),
    st.builds(s.finished, st.sampled_from(["met", "waiting"]), SMALL),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_any_history_folds_the_same_step_by_step_from_memory_and_from_the_file(payloads):
    with tempfile.TemporaryDirectory() as root:
        run_dir = Path(root) / "run"
        with Ledger.create(run_dir, s.ticking()) as ledger:
            ledger.append(s.started())
            stored = 1
            for data in payloads:
                before = ledger.state()
                try:
                    ledger.append(data)
                except LedgerError:
                    assert ledger.state() is before
                else:
                    stored += 1
            state = ledger.state()
            assert len(ledger.events) == stored == state.head_seq
            assert repr(fold(ledger.events)) == repr(state)
        with Ledger.open(run_dir, s.ticking()) as again:
            # repr, not ==: 1 and 1.0 are equal but print differently in a report.
            assert repr(again.state()) == repr(state)


def test_a_question_and_its_answer_are_one_call_and_an_unanswered_one_stays_open():
    state = state_of(s.started(), s.phase("tuning"), s.asked("A1"), s.answered("A1"), s.asked("A2", turn=1))
    assert state.llm_calls["A1"].answered == s.answered("A1")
    assert state.llm_calls["A1"].phase == "tuning"
    assert state.llm_calls["A2"].answered is None


@pytest.mark.parametrize("events", [(s.answered("A1"),), (s.asked("A1"), s.answered("A1"), s.answered("A1"))])
def test_an_answer_without_its_question_or_a_second_answer_cannot_have_happened(events):
    with pytest.raises(LedgerError, match="cannot have happened"):
        state_of(s.started(), *events)


def test_what_a_brain_did_reaches_its_place():
    state = state_of(s.started(), *s.brain_events())
    assert state.llm_mode is not None
    assert state.skipped["dtype"].disposition == "not_worth_it"
    assert state.fell_back is not None
    assert (len(state.readings), len(state.searches), len(state.scores)) == (1, 1, 1)
