"""A brain that makes no progress is stopped with a reason, and what it has found so far stands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from agent.dossiers import GOAL
from agent.sessions import add_candidate, add_window, session_in

from infra_agent.agent.actions import ACTION, Action
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.loop import pursue
from infra_agent.agent.outcome import conclude
from infra_agent.agent.watchdog import Patience, Progress, Watchdog, digest_of, progress_of
from infra_agent.errors import BudgetSpent
from infra_agent.goal.model import SpendingCaps
from infra_agent.harness.budget import Budget
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k

pytestmark = pytest.mark.requirement("B3")
PATIENCE = Patience(same=3, refused=4, quiet=5)
NOTHING = Progress(0, 0)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_in(tmp_path) as opened:
        yield opened


class Repeats:
    """A brain that never does anything new."""

    name = "repeats"

    def __init__(self, *actions: dict[str, object]) -> None:
        self._actions = [ACTION.validate_python(action) for action in actions]
        self.asked = 0

    def next(self, dossier: Dossier) -> Action:
        self.asked += 1
        return self._actions[(self.asked - 1) % len(self._actions)]


def hypothesis(number: int) -> dict[str, object]:
    prediction = {"rung": "load", "metric": "output_tok_per_s", "low": 1.1, "high": 2.0}
    return {
        "kind": "hypothesise", "family": "batching", "cause": f"cause {number}", "place": "scheduler",
        "refuted_by": "nothing", "predictions": [prediction],
    }  # fmt: skip


PROVE = {"kind": "prove", "candidate": "C9"}
OTHER = {"kind": "prove", "candidate": "C8"}


def test_the_same_action_again_and_again_is_stopped_though_others_stand_between() -> None:
    watchdog = Watchdog(PATIENCE)
    said = [watchdog.saw(a, refused=False, progress=Progress(n, 0)) for n, a in enumerate([PROVE, OTHER] * 3)]
    assert said[:4] == ["", "", "", ""]
    assert said[4] == "the same action 3 times without a decision"


def test_a_decision_in_between_makes_a_repeat_worth_trying() -> None:
    watchdog = Watchdog(PATIENCE)
    assert not any(watchdog.saw(PROVE, refused=False, progress=Progress(n, n)) for n in range(1, 20))


def test_refusals_in_a_row_are_stopped_and_one_that_was_carried_out_breaks_the_row() -> None:
    watchdog, progress = Watchdog(Patience(same=99, refused=3, quiet=99)), count()
    said = [
        watchdog.saw({"n": n}, refused=refused, progress=Progress(next(progress), 0))
        for n, refused in enumerate([True, True, False, True, True, True])
    ]
    assert said == ["", "", "", "", "", "3 refused actions in a row"]


def test_turns_without_anything_new_are_stopped() -> None:
    watchdog = Watchdog(PATIENCE)
    said = [watchdog.saw({"n": n}, refused=False, progress=NOTHING) for n in range(5)]
    assert said == ["", "", "", "", "5 turns without a new observation, candidate or verdict"]
    observed = [watchdog.saw({"n": n + 9}, refused=False, progress=Progress(n, 0)) for n in range(20)]
    assert not any(observed[1:])


def test_the_order_of_an_actions_keys_and_its_form_make_no_difference() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1}) == digest_of('{"b": [2], "a": 1}')
    assert digest_of("not { json") == digest_of("not { json") != digest_of({"a": 1})


def test_a_loop_that_repeats_itself_ends_with_a_note_a_reason_and_a_partial_result(session: Session) -> None:
    add_window(session, "stock", 25.0)
    brain = Repeats(PROVE, OTHER)
    reason = pursue(session, brain, "agent")
    assert reason.startswith("10 refused actions in a row; the last: no candidate")
    assert brain.asked == 10
    notes = [note for note in session.state.notes if note.topic == "stalled"]
    assert [note.text for note in notes] == [reason]
    outcome = conclude(session.state)
    assert outcome.kind == "not_met"
    assert outcome.sentence.endswith(f"The brain was stopped because it made no progress: {reason}.")


def test_a_brain_that_only_states_causes_is_stopped(session: Session) -> None:
    class Talks:
        name = "talks"

        def next(self, dossier: Dossier) -> Action:
            return ACTION.validate_python(hypothesis(dossier.turn))

    assert pursue(session, Talks(), "agent") == "25 turns without a new observation, candidate or verdict"
    assert len(session.state.hypotheses) == 25


def test_patience_is_not_renewed_by_a_resume(session: Session) -> None:
    add_candidate(session)
    for turn in range(3):
        session.ledger.append(k.ActionTaken(turn=turn, action=PROVE))
    add_window(session, "stock", 25.0)
    session.ledger.append(k.ActionRefused(turn=3, action='{"candidate": "C9", "kind": "prove"}', error="no"))
    watchdog = Watchdog.resumed(session.state, Patience(same=5, refused=99, quiet=99))
    now = progress_of(session.state)
    assert now == Progress(observations=1, decisions=1)
    assert watchdog.saw(PROVE, refused=True, progress=now) == "the same action 5 times without a decision"


def test_turns_have_a_ceiling_of_their_own(tmp_path: Path) -> None:
    with session_in(tmp_path, GOAL) as opened:
        caps = SpendingCaps(turns=3)
        capped = Budget(600.0, lambda: 0.0, caps=caps)
        object.__setattr__(opened, "budget", capped)
        with pytest.raises(BudgetSpent, match="its 3 turns"):
            pursue(opened, Repeats(*(hypothesis(n) for n in range(9))), "agent")
        assert opened.state.turns == 3
