"""An action that a crash cut off is gone on with: never asked for again, and never done twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent.sessions import add_candidate, add_window, session_in

from infra_agent.agent.actions import (
    Action,
    ConcludeAction,
    HypothesiseAction,
    MeasureAction,
    ParameterChange,
    Prediction,
    ProposeAction,
    ProveAction,
    SkippedFamily,
)
from infra_agent.agent.brains.script import ScriptBrain
from infra_agent.agent.loop import pursue
from infra_agent.agent.under_way import action_under_way, begin_action, concluded, has_its_effect
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k

pytestmark = pytest.mark.requirement("L3")
HYPOTHESISE = HypothesiseAction(
    family="batching", cause="one at a time", place="scheduler", refuted_by="two at once",
    predictions=(Prediction(rung="load", metric="output_tok_per_s", low=1, high=2),),
)  # fmt: skip
PROPOSE = ProposeAction(hypothesis="", changes=(ParameterChange(parameter="continuous_batching", value=True),))
SKIPPED = tuple(
    SkippedFamily(family=name, disposition="not_worth_it", reason="a test") for name in ("batching", "dtype", "threads")
)
CONCLUDE = ConcludeAction(reason="nothing left", skipped=SKIPPED)


def state_hypothesis(session: Session) -> None:
    fields = HYPOTHESISE.model_dump(exclude={"kind", "predictions"})
    session.ledger.append(k.HypothesisStated(id="H1", predictions=(), **fields))


def launch(session: Session, outcome: Any) -> None:
    session.ledger.append(
        k.LaunchStarted(id="L1", candidate="C1", arm="candidate", purpose="climb", lane="agent", settings={}, argv=())
    )
    session.ledger.append(k.LaunchEnded(id="L1", outcome=outcome, ready_s=1, wall_s=1))


def judge(session: Session) -> None:
    session.ledger.append(
        k.VerdictGiven(
            candidate="C1", decision="rejected", cause="slower", rung="load", estimate=None, reason="", elapsed_s=1
        )
    )


def begun(session: Session, action: Action) -> None:
    begin_action(session, action, session.state.turns)
    assert action_under_way(session) == action


def test_without_an_action_under_way_there_is_none(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        assert action_under_way(session) is None
        assert concluded(session) is None


def test_what_was_stated_before_the_action_began_is_not_its_effect(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        state_hypothesis(session)
        begun(session, HYPOTHESISE)
        assert not has_its_effect(session, HYPOTHESISE)


def test_each_action_knows_its_effect(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        begun(session, HYPOTHESISE)
        state_hypothesis(session)
        assert has_its_effect(session, HYPOTHESISE)
        assert not has_its_effect(session, PROPOSE)
        add_candidate(session)
        assert has_its_effect(session, PROPOSE)
        assert not has_its_effect(session, ProveAction(candidate="C1"))
        judge(session)
        assert has_its_effect(session, ProveAction(candidate="C1"))
        assert not has_its_effect(session, ProveAction(candidate="C7"))
        # It is checked and drawn again.
        assert not has_its_effect(session, CONCLUDE)


@pytest.mark.parametrize(("outcome", "done"), [("stopped", True), ("died", True), ("interrupted", False)])
def test_a_measurement_is_done_when_its_launch_went_to_its_own_end(tmp_path: Path, outcome: str, done: bool) -> None:
    measure = MeasureAction(probe="load", target="C1")
    with session_in(tmp_path) as session:
        add_candidate(session)
        begun(session, measure)
        assert not has_its_effect(session, measure)
        launch(session, outcome)
        assert has_its_effect(session, measure) is done


def told(session: Session) -> list[str]:
    return [at.data.kind for at in session.state.events]


class Refusing(ScriptBrain):
    """A brain that must not be asked."""

    def __init__(self, actions: Sequence[Action] = ()) -> None:
        super().__init__(actions)

    def next(self, dossier: Any) -> Action:
        raise AssertionError("the brain was asked")


def test_the_brain_is_not_asked_while_an_action_is_under_way(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        begun(session, CONCLUDE)
        assert pursue(session, Refusing(), "agent") == "nothing left"
        assert told(session)[-1] == "action"
        assert session.state.begun is None


def test_a_brain_that_has_concluded_is_not_asked_again(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        session.ledger.append(k.ActionTaken(turn=0, action=CONCLUDE.model_dump(mode="json")))
        before = told(session)
        assert pursue(session, Refusing(), "agent") == "nothing left"
        assert told(session) == before


def test_a_hypothesis_stated_before_the_crash_is_not_stated_twice(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        begun(session, HYPOTHESISE)
        state_hypothesis(session)
        pursue(session, ScriptBrain([HYPOTHESISE, CONCLUDE]), "agent")
        assert list(session.state.hypotheses) == ["H1"]
        assert told(session).count("action") == 2


def test_an_action_cut_off_before_any_effect_is_carried_out(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        begun(session, HYPOTHESISE)
        pursue(session, ScriptBrain([HYPOTHESISE, CONCLUDE]), "agent")
        assert list(session.state.hypotheses) == ["H1"]


def test_an_action_that_is_refused_on_resuming_ends_its_turn(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        add_window(session, "stock", 25.0)
        begun(session, ProveAction(candidate="C9"))
        pursue(session, ScriptBrain([ProveAction(candidate="C9"), CONCLUDE]), "agent")
        assert [refused.turn for refused in session.state.refused] == [0]
        assert session.state.turns == 2
