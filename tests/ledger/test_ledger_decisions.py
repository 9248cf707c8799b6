"""Decisions in the ledger: impossible ones are refused, a crash loses none, and anybody can check them offline."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger_samples as s
import pytest
from review.waiting import NONCE, Person, Waiting, person, waiting_run

from infra_agent.agent.start import spent_s
from infra_agent.errors import LedgerError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.chain import LEDGER_FILE, read_chain
from infra_agent.ledger.crash import VARIABLE
from infra_agent.ledger.fold import fold
from infra_agent.ledger.runs import list_runs
from infra_agent.ledger.store import Ledger
from infra_agent.ledger.verify import verify


def declined(id: str = "C1", decision: Any = "reject", nonce: str = NONCE) -> k.Declined:
    no = s.signed(nonce=nonce, decision=decision)
    return k.Declined(candidate=id, request="0" * 64, decision=decision, reason="no", grant=no)


def gated(id: str = "C1") -> k.CandidateProposed:
    return s.candidate(id).model_copy(update={"risk": "numerics"})


def accepted(id: str = "C1", request: str = "0" * 64) -> k.Accepted:
    return s.accepted(id).model_copy(update={"request": request})


AT_THE_GATE = [s.started(), gated(), s.verdict("C1"), s.waiting("C1")]


@pytest.mark.requirement("A5")
def test_an_open_gate_is_pending_by_fold_and_a_decision_closes_it() -> None:
    state = fold(s.chained(*AT_THE_GATE))
    assert [c.proposed.id for c in state.open_gates] == ["C1"]
    evidence = state.candidates["C1"].evidence
    assert evidence is not None
    assert evidence == (3, s.chained(*AT_THE_GATE)[2].hash)
    assert fold(s.chained(*AT_THE_GATE, s.approved(), accepted())).best == "C1"
    for decision in ("reject", "request_changes"):
        state = fold(s.chained(*AT_THE_GATE, declined(decision=decision)))
        assert state.open_gates == ()
        assert state.best == "stock"


@pytest.mark.parametrize(
    ("payloads", "says"),
    [
        ([accepted(request="")], "was never approved"),
        ([s.approved(), accepted(request="")], "another request"),
        ([s.approved(), accepted(request="1" * 64)], "another request"),
        ([s.approved(), s.approved(nonce="1" * 32)], "does not wait"),
        ([s.approved(), declined(nonce="1" * 32)], "does not wait"),
        ([declined(), s.approved(nonce="1" * 32)], "does not wait"),
        ([declined(), accepted()], "was never approved"),
        ([declined(), declined(nonce="1" * 32)], "does not wait"),
        ([s.approved("C9")], "'C9' is unknown"),
        ([s.waiting("C1")], "opened already"),
        ([s.approved(), accepted(), s.waiting("C1")], "opened already"),
        ([s.candidate("C2"), s.approved("C2")], "does not wait"),
        ([gated("C2"), s.verdict("C2"), s.accepted("C2")], "was never approved"),
        ([s.candidate("C2"), s.verdict("C2"), accepted("C2")], "another request"),
        ([gated("C2"), s.verdict("C2"), s.waiting("C2"), s.approved(), s.approved("C2")], "a second time"),
        ([k.Approved(candidate="C1", request="0" * 64, grants=(s.signed(), s.signed()))], "a second time"),
    ],
)
def test_a_history_that_nobody_approved_is_impossible(payloads: list[k.EventData], says: str) -> None:
    with pytest.raises(LedgerError, match=says):
        fold(s.chained(*AT_THE_GATE, *payloads))


def test_a_gate_that_names_its_request_opens_for_no_other() -> None:
    waiting = s.waiting("C1").model_copy(update={"request": "2" * 64})
    with pytest.raises(LedgerError, match="another request"):
        fold(s.chained(*AT_THE_GATE[:-1], waiting, s.approved()))


def test_a_class_that_nobody_knows_waits_like_the_strictest() -> None:
    odd = s.candidate("C1").model_copy(update={"risk": "harmless"})
    with pytest.raises(LedgerError, match="was never approved"):
        fold(s.chained(s.started(), odd, s.verdict("C1"), s.accepted("C1")))


def test_ledgers_of_version_0_1_0_still_fold() -> None:
    old = [(event.kind, event.model_dump(mode="python")) for event in AT_THE_GATE]
    for kind, data in old:
        for name in {
            "run_started": ("stack_source", "reviewer_key"),
            "waiting": ("request", "operands", "budget_s"),
        }.get(kind, ()):
            del data[name]
        if kind == "run_started":
            del data["stack"]["review"]
    assert len(fold(s.chained(*old)).open_gates) == 1


def test_a_new_best_has_not_been_relaunched_yet() -> None:
    final = k.FinalMeasured(
        candidate="C2", arms=("stock", "C2"), search_seeds=(1,), seeds=(2,), estimate=s.ESTIMATE, stock_value=1.0,
        candidate_value=2.0,
    )  # fmt: skip
    before = [*AT_THE_GATE, s.candidate("C2"), s.verdict("C2"), s.accepted("C2"), final]
    assert fold(s.chained(*before)).final == final
    assert fold(s.chained(*before, s.approved(), accepted())).final is None


@pytest.fixture
def alice(tmp_path: Path) -> Person:
    return person(tmp_path / "people", "alice")


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("moment", ["before", "after", "torn"])
@pytest.mark.parametrize("event", ["approved", "accepted"])
def test_a_kill_at_either_event_of_an_approval_is_healed_by_the_next_writer(
    tmp_path: Path, alice: Person, event: str, moment: str
) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice)
    seq = run.state().head_seq + (1 if event == "approved" else 2)

    def work() -> None:
        os.environ[VARIABLE] = f"{seq}:{moment}"
        run.take_in()

    assert s.ended(s.in_child(work)) == -signal.SIGKILL
    assert run.state().best == ("C2" if (event, moment) == ("accepted", "after") else "C1")
    run.take_in()
    state = run.state()
    assert state.best == "C2"
    assert [type(e.data) for e in state.events].count(k.Approved) == 1
    assert [e.data.candidate for e in state.events if isinstance(e.data, k.Accepted)] == ["C1", "C2"]
    assert verify(run.run_dir).ok
    assert run.take_in() == []


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("moment", ["before", "after", "torn"])
def test_a_kill_while_a_no_is_recorded_loses_nothing(tmp_path: Path, alice: Person, moment: str) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice, "reject", reason="not yet")
    seq = run.state().head_seq + 1

    def work() -> None:
        os.environ[VARIABLE] = f"{seq}:{moment}"
        run.take_in()

    assert s.ended(s.in_child(work)) == -signal.SIGKILL
    run.take_in()
    found = run.state().candidates["C2"].declined
    assert found is not None
    assert found.reason == "not yet"
    assert verify(run.run_dir).ok


def test_a_healed_approval_is_checked_again(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice)
    seq = run.state().head_seq + 1

    def work() -> None:
        os.environ[VARIABLE] = f"{seq}:after"
        run.take_in()

    assert s.ended(s.in_child(work)) == -signal.SIGKILL
    (run.stack_file.parent / "model" / "config.json").write_text("[]")
    with pytest.raises(Exception, match="stack digest"):
        run.take_in()
    assert run.state().best == "C1"


def test_the_time_a_person_takes_is_no_budget(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    ended = run.state()
    run.decide(alice)
    run.take_in()
    assert run.state().head_seq == ended.head_seq + 2
    assert spent_s(run.state()) == spent_s(ended) == ended.elapsed_s


def test_a_run_whose_gates_are_all_decided_is_listed_as_such(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, also=("C3",))
    assert list_runs(run.run_dir.parent)[0].status == "waiting"
    run.decide(alice)
    run.take_in()
    assert list_runs(run.run_dir.parent)[0].status == "waiting"
    run.decide(alice, "reject", id="C3", reason="no")
    run.take_in()
    assert list_runs(run.run_dir.parent)[0].status == "decided"


def decided(folder: Path, alice: Person, decision: Any = "approve") -> Waiting:
    run = waiting_run(folder, local=alice)
    run.decide(alice, decision, reason="because")
    run.take_in()
    assert verify(run.run_dir).ok
    return run


def faults(run: Waiting) -> str:
    return "\n".join(problem.what for problem in verify(run.run_dir).problems)


def forge(signature: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["grants"][0].update(signature=signature)


@pytest.mark.requirement("A2")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data["grants"][0]["grant"].update(reason="other"), "signature of alice"),
        (lambda data: data["grants"][0]["grant"].update(reviewer="mallory"), "signature of mallory"),
        (lambda data: data["grants"][0]["grant"].update(expires="2030-01-01T00:00:00Z"), "signature of alice"),
        (forge("-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"), "signature of alice"),
        (lambda data: data["grants"].append(data["grants"][0] | {"signature": "x"}), ""),
    ],
)
def test_verify_names_an_approval_whose_signature_does_not_hold(
    tmp_path: Path, alice: Person, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    run = decided(tmp_path, alice)
    run.edit("approved", change)
    assert not verify(run.run_dir).ok
    assert says in faults(run)


def test_verify_names_an_approval_of_something_else(tmp_path: Path, alice: Person) -> None:
    run = decided(tmp_path, alice)
    run.edit("observation", lambda data: data["observation"].update(value=99.5), 1)
    assert "request digest: the decision was made on something else" in faults(run)
    assert "is not the one that alice saw" in faults(run)


def test_verify_names_an_approval_by_somebody_who_was_no_reviewer(tmp_path: Path, alice: Person) -> None:
    bob = person(tmp_path / "people", "bob")
    run = decided(tmp_path, alice)
    run.edit("run_started", lambda data: data.update(reviewer_key=bob.line))
    assert "request digest" in faults(run)
    fresh = waiting_run(tmp_path / "fresh", {"reviewers": [bob.entry()]})
    other = waiting_run(tmp_path / "other", local=alice)
    grant = other.grant(alice, request=fresh.request().id)
    with Ledger.open(fresh.run_dir, s.ticking()) as ledger:
        ledger.append(k.Approved(candidate="C2", request=fresh.request().id, grants=(grant,)))
    assert "belongs to no reviewer of this run" in faults(fresh)


def test_verify_names_an_approval_that_had_ended(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    grant = run.grant(alice, expires="2026-11-30T12:00:01Z", time="2026-11-30T12:00:00Z")
    with Ledger.open(run.run_dir, s.ticking("2026-11-30T15:00:00+00:00")) as ledger:
        ledger.append(k.Approved(candidate="C2", request=run.request().id, grants=(grant,)))
    assert "expired: the decision of alice ended" in faults(run)


def test_verify_names_a_no_that_was_made_up(tmp_path: Path, alice: Person) -> None:
    run = decided(tmp_path, alice, "reject")
    run.edit("declined", lambda data: data.update(reason="something nicer"))
    assert "another reason was signed" in faults(run)
    again = decided(tmp_path / "again", alice, "reject")
    again.edit("declined", lambda data: data.update(decision="request_changes"))
    assert "signed is 'reject', recorded is 'request_changes'" in faults(again)


@pytest.mark.requirement("A2")
def test_a_decision_file_anchors_the_ledger_that_its_person_saw(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    path = run.decide(alice)
    seen = json.loads(path.read_text())["request"]["evidence"]["seq"]
    assert verify(run.run_dir).ok
    lines = (run.run_dir / LEDGER_FILE).read_bytes().splitlines(keepends=True)
    (run.run_dir / LEDGER_FILE).write_bytes(b"".join(lines[: seen - 1]))
    assert f"event {seen} is missing: alice saw it" in faults(run)


def test_a_bad_decision_file_is_a_fault(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    path = run.decide(alice)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"request": {}}))
    assert "the request in it is not the one that was signed" in faults(run)
    path.write_text("{")
    assert "not readable JSON" in faults(run)


def test_what_is_in_the_ledger_is_enough_without_the_decision_files(tmp_path: Path, alice: Person) -> None:
    run = decided(tmp_path, alice)
    for path in (run.run_dir / "approvals").iterdir():
        path.unlink()
    assert verify(run.run_dir).ok
    assert read_chain(run.run_dir).events[-1].kind == "accepted"
