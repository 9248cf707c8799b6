"""What a person decides reaches the run and its brain; what does not hold changes nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ledger import ledger_samples as samples
from review.waiting import Person, Waiting, person, waiting_run

from infra_agent.agent.actions import ParameterChange, ProposeAction
from infra_agent.agent.decisions import asked_to_go_on, take_in_decisions
from infra_agent.agent.execute import ActionError, execute
from infra_agent.agent.outcome import conclude
from infra_agent.agent.view import build_dossier, consent_s, reserve_s
from infra_agent.harness.budget import Budget
from infra_agent.harness.narrate import Silent
from infra_agent.harness.oracle import OracleHolder
from infra_agent.harness.sandbox import NO_WALLS
from infra_agent.harness.session import Session
from infra_agent.harness.verdicts import open_gate
from infra_agent.ledger import kinds as k
from infra_agent.ledger.store import Ledger
from infra_agent.stack.engines import get_engine
from probes.load.types import Prompt


@contextmanager
def session_on(run: Waiting) -> Iterator[Session]:
    """A session of a live process on a run that has a candidate at its gate."""
    ticks = itertools.count()
    with Ledger.open(run.run_dir, lambda: run.now[0]) as ledger:
        started = ledger.state().started
        yield Session(
            ledger=ledger, goal=started.goal, stack=started.stack, engine=get_engine(started.stack.engine),
            walls=NO_WALLS, run_dir=run.run_dir, narrator=Silent(), budget=Budget(600, lambda: float(next(ticks))),
            clock=lambda: float(next(ticks)), seed=7, prompts=(Prompt.of("Say something."),), answer_prompts=(),
            oracle=OracleHolder(started.stack, NO_WALLS, run.run_dir / "oracle"), authority=run.authority,
        )  # fmt: skip


@pytest.fixture
def alice(tmp_path: Path) -> Person:
    return person(tmp_path / "people", "alice")


def float32(base: str = "best") -> ProposeAction:
    changes = (ParameterChange(parameter="dtype", value="float32"),)
    return ProposeAction(hypothesis="", changes=changes, base=base)  # type: ignore[arg-type]


def test_a_live_run_takes_in_what_was_decided_between_two_steps(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    with session_on(run) as session:
        take_in_decisions(session)
        assert session.state.best == "C1"
        run.decide(alice)
        take_in_decisions(session)
        take_in_decisions(session)
        assert session.state.best == "C2"
        assert session.state.notes == ()


def test_in_a_live_run_a_decision_that_does_not_hold_is_noted_once_and_opens_nothing(
    tmp_path: Path, alice: Person
) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    path = run.decide(alice)
    document = json.loads(path.read_text())
    document["grant"]["reason"] = "edited"
    path.write_text(json.dumps(document))
    with session_on(run) as session:
        for _ in range(3):
            take_in_decisions(session)
        assert session.state.best == "C1"
        assert [note.topic for note in session.state.notes] == ["warning"]
        assert "approval refused: signature of alice" in session.state.notes[0].text


@pytest.mark.parametrize(
    ("decision", "status"), [("reject", "rejected_by_person"), ("request_changes", "changes_requested")]
)
def test_the_brain_sees_what_a_person_said_and_why(tmp_path: Path, alice: Person, decision: str, status: str) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    with session_on(run) as session:
        before = build_dossier(session, "agent")
        assert before.rejected_by_person == ()
        assert {view.id: view.status for view in before.candidates} == {"C1": "accepted", "C2": "waiting"}
        run.decide(alice, decision, reason="keep bfloat16")  # type: ignore[arg-type]
        take_in_decisions(session)
        after = build_dossier(session, "agent")
    assert after.rejected_by_person == (("C2", decision, "keep bfloat16"),)
    view = next(view for view in after.candidates if view.id == "C2")
    assert (view.status, view.reason) == (status, "keep bfloat16")


def test_a_rejected_change_is_not_put_before_a_person_again(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    run.edit("candidate", lambda data: data.update(changes=data["changes"][1:]), 1)
    run.edit("waiting", lambda data: data.update(request=""))
    run.decide(alice, "reject", reason="keep bfloat16")
    with session_on(run) as session:
        take_in_decisions(session)
        for base in ("best", "stock"):
            with pytest.raises(ActionError, match="a person rejected candidate C2 .*: keep bfloat16"):
                execute(session, float32(base), "agent")
        assert len(session.state.candidates) == 2


def test_after_asked_for_changes_only_the_same_configuration_is_refused(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    run.decide(alice, "request_changes", reason="and without batching?")
    with session_on(run) as session:
        take_in_decisions(session)
        with pytest.raises(ActionError, match="same configuration"):
            execute(session, float32(), "agent")
        with pytest.raises(ActionError, match="stock has not been measured"):
            execute(session, float32("stock"), "agent")


def test_tuning_goes_on_once_when_a_person_asks_for_changes(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    assert not asked_to_go_on(run.state())
    run.decide(alice, "request_changes", reason="something smaller")
    run.take_in()
    assert asked_to_go_on(run.state())
    with Ledger.open(run.run_dir, lambda: run.now[0]) as ledger:
        ledger.append(k.PhaseStarted(name="tuning", elapsed_s=260.0))
    assert not asked_to_go_on(run.state())
    other = waiting_run(tmp_path / "other", local=alice)
    other.decide(alice, "reject", reason="no")
    other.take_in()
    assert not asked_to_go_on(other.state())


def test_a_run_waits_only_as_long_as_somebody_has_to_decide(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, also=("C3",))
    assert conclude(run.state()).exit_code == 3
    run.decide(alice)
    run.take_in()
    assert "C3 (numerics)" in conclude(run.state()).sentence
    assert "C2 (numerics)" not in conclude(run.state()).sentence
    run.decide(alice, "reject", id="C3", reason="no")
    run.take_in()
    assert conclude(run.state()).kind == "not_met"


def test_budget_is_kept_for_the_relaunch_that_follows_a_yes(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    with session_on(run) as session:
        kept_s, before_s = consent_s(session), reserve_s(session)
        assert kept_s > 0
        run.decide(alice, "reject", reason="no")
        take_in_decisions(session)
        assert consent_s(session) == 0
        assert reserve_s(session) == pytest.approx(before_s - kept_s)


def test_nothing_is_taken_in_while_a_candidate_is_being_proved(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    run.decide(alice)
    with session_on(run) as session:
        proposed = session.state.candidates["C1"].proposed
        session.ledger.append(proposed.model_copy(update={"id": "C9", "base": "C1", "digest": "9" * 64}))
        take_in_decisions(session)
        assert session.state.best == "C1"
        session.ledger.append(samples.verdict("C9", "rejected"))
        take_in_decisions(session)
        assert session.state.best == "C2"


def test_what_was_proved_on_an_older_base_does_not_take_back_the_best(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, finished=False)
    with session_on(run) as session:
        proposed = session.state.candidates["C1"].proposed
        session.ledger.append(proposed.model_copy(update={"id": "C9", "base": "stock", "digest": "9" * 64}))
        session.ledger.append(samples.verdict("C9"))
        open_gate(session, "C9")
        assert session.state.best == "C1"
        assert session.state.candidates["C9"].accepted is None
        view = next(view for view in build_dossier(session, "agent").candidates if view.id == "C9")
        assert view.status == "proved"
