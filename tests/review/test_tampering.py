"""Whatever is changed between the question and the answer, the answer is refused and the difference is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from review.waiting import NOW, RUN_ID, Person, Waiting, person, waiting_run, write_stack

from infra_agent.agent.decisions import require_decided
from infra_agent.changes.change import settings_digest
from infra_agent.errors import ApprovalRefused, ExitCode
from infra_agent.ledger import artifacts
from infra_agent.ledger.approvals import policies
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.decision_files import write_decision
from infra_agent.ledger.decisions import require_readable
from infra_agent.ledger.verify import verify
from infra_agent.review import sshsig
from infra_agent.review.approval import as_text
from infra_agent.review.verify import check_decision
from infra_agent.review.wire import put_string

pytestmark = [pytest.mark.requirement("A2"), pytest.mark.requirement("A1")]


@pytest.fixture
def alice(tmp_path: Path) -> Person:
    return person(tmp_path / "people", "alice")


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return person(tmp_path / "people", "bob")


def table(*entries: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"reviewers": list(entries), **extra}


def document(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    loaded = document(path)
    change(loaded)
    path.write_text(json.dumps(loaded))


def refused(run: Waiting, *named: str) -> ApprovalRefused:
    """The refusal, with the ledger as it was before."""
    before = (run.run_dir / LEDGER_FILE).read_bytes()
    with pytest.raises(ApprovalRefused) as caught:
        run.take_in()
    assert caught.value.exit_code == ExitCode.USAGE == 2
    assert caught.value.message.startswith("approval refused: ")
    for text in named:
        assert text in caught.value.message
    assert (run.run_dir / LEDGER_FILE).read_bytes() == before
    return caught.value


def flip(path: Path, offset: int = 0) -> None:
    """Change one bit of one byte."""
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 1
    path.write_bytes(bytes(raw))


def test_untouched_it_is_taken_in_and_the_candidate_becomes_the_best(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice, reason="looked at the answers")
    assert [ruling.names for ruling in run.take_in()] == [("alice",)]
    state = run.state()
    assert state.best == "C2"
    approved, accepted = state.candidates["C2"].approved, state.candidates["C2"].accepted
    assert approved is not None
    assert accepted is not None
    assert accepted.request == approved.request == run.request().id
    assert alice.signing.public.fingerprint in accepted.gate
    assert run.take_in() == []


def edit_weights(run: Waiting) -> None:
    flip(run.stack_file.parent / "model" / "config.json")


def edit_stack_file(run: Waiting) -> None:
    text = run.stack_file.read_text()
    run.stack_file.write_text(text.replace('name = "s"', 'name = "t"'))


def break_stack_file(run: Waiting) -> None:
    run.stack_file.write_text("[stack\n")


def remove_stack_file(run: Waiting) -> None:
    run.stack_file.unlink()


def edit_prompts(run: Waiting) -> None:
    flip(run.stack_file.parent / "prompts.jsonl", 12)


def edit_goal_copy(run: Waiting) -> None:
    flip(run.run_dir / "goal.toml", 10)


def edit_stack_copy(run: Waiting) -> None:
    flip(run.run_dir / "stack.toml", 10)


def add_script(run: Waiting) -> None:
    (run.run_dir / "script.toml").write_text("")


def edit_artifact(run: Waiting) -> None:
    flip(next((run.run_dir / "artifacts").iterdir()))


def remove_artifact(run: Waiting) -> None:
    next((run.run_dir / "artifacts").iterdir()).unlink()


def edit_evidence(run: Waiting) -> None:
    run.edit("observation", lambda data: data["observation"].update(value=99.5), 1)


def edit_settings(run: Waiting) -> None:
    run.edit("candidate", lambda data: data["settings"].update(dtype="float16"), 1)


def edit_digest(run: Waiting) -> None:
    run.edit("candidate", lambda data: data.update(digest="0" * 64), 1)


def edit_stack_digest(run: Waiting) -> None:
    run.edit("run_started", lambda data: data.update(stack_digest="0" * 64))


def lower_risk(run: Waiting) -> None:
    run.edit("waiting", lambda data: data.update(risk="memory"))


def edit_operand_record(run: Waiting) -> None:
    run.edit("waiting", lambda data: data["operands"].update({"goal.toml": "0" * 64}))


def edit_budget(run: Waiting) -> None:
    run.edit("waiting", lambda data: data.update(budget_s=9e9))


def add_reviewer_to_the_record(run: Waiting) -> None:
    run.edit("run_started", lambda data: data.update(reviewer_key="ssh-ed25519 AAAA mallory"))


AFTER_SIGNING = {
    "one byte of the weights": (edit_weights, "stack digest"),
    "the stack file": (edit_stack_file, "stack digest"),
    "a broken stack file": (break_stack_file, "stack file"),
    "a missing stack file": (remove_stack_file, "stack file"),
    "one byte of the prompts": (edit_prompts, "operand digest: workload.prompts was changed"),
    "one byte of the run's goal": (edit_goal_copy, "operand digest: goal.toml was changed"),
    "one byte of the run's stack": (edit_stack_copy, "operand digest: stack.toml was changed"),
    "a script that was not there": (add_script, "operand digest: script.toml was added"),
    "one byte of an artifact": (edit_artifact, "evidence digest"),
    "a missing artifact": (remove_artifact, "evidence digest"),
    "an observation, chain made good": (edit_evidence, "evidence digest"),
    "a setting, chain made good": (edit_settings, "settings"),
    "the candidate's digest, chain made good": (edit_digest, "candidate digest"),
    "the stack's digest, chain made good": (edit_stack_digest, "stack digest"),
    "the risk class, chain made good": (lower_risk, "risk class"),
    "an operand's digest, chain made good": (edit_operand_record, "operand digest"),
    "the budget, chain made good": (edit_budget, "budget effect"),
    "the reviewers, chain made good": (add_reviewer_to_the_record, ""),
}


@pytest.mark.parametrize("name", AFTER_SIGNING)
def test_an_edit_after_the_signature_is_refused_by_name(tmp_path: Path, alice: Person, name: str) -> None:
    edit, named = AFTER_SIGNING[name]
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice)
    edit(run)
    refused(run, named)


@pytest.mark.parametrize("name", ["one byte of the weights", "one byte of the prompts", "the stack file"])
def test_what_was_approved_is_checked_again_before_the_run_goes_on_with_it(
    tmp_path: Path, alice: Person, name: str
) -> None:
    edit, named = AFTER_SIGNING[name]
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice)
    run.take_in()
    require_decided(run.run_dir, run.state(), run.authority)
    edit(run)
    with pytest.raises(ApprovalRefused, match=named.split(":")[0]):
        require_decided(run.run_dir, run.state(), run.authority)


def test_one_byte_of_the_ledger_is_refused_as_evidence(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice)
    require_readable(run.run_dir)
    raw = (run.run_dir / LEDGER_FILE).read_bytes()
    (run.run_dir / LEDGER_FILE).write_bytes(raw.replace(b"25.25", b"25.26", 1))
    with pytest.raises(ApprovalRefused, match="evidence digest: event 6"):
        require_readable(run.run_dir)


def test_one_byte_of_a_patch_is_refused(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    name = artifacts.put(run.run_dir, b"--- a/x\n+++ b/x\n")
    state = run.state()
    proposed = state.candidates["C2"].proposed
    digest = settings_digest(state.started.stack_digest, proposed.settings, (name,))
    run.edit("candidate", lambda data: data.update(patches=[name], digest=digest), 1)
    run.edit("waiting", lambda data: data.update(request=""))
    assert run.request().patches == (name,)
    run.decide(alice)
    flip(run.run_dir / "artifacts" / name)
    refused(run, "patch digest", name)


def edit_reason(decision: dict[str, Any]) -> None:
    decision["grant"]["reason"] = "something else"


def turn_round(decision: dict[str, Any]) -> None:
    decision["grant"]["decision"] = "approve"


def edit_request(decision: dict[str, Any]) -> None:
    decision["request"]["settings"]["dtype"] = "float16"


def point_elsewhere(decision: dict[str, Any]) -> None:
    decision["grant"]["request"] = "0" * 64


def add_key(decision: dict[str, Any]) -> None:
    decision["comment"] = "trust me"


def no_number(decision: dict[str, Any]) -> None:
    decision["request"]["budget_s"] = float("nan")


def no_request(decision: dict[str, Any]) -> None:
    decision["request"] = {}


EDITED_FILES = {
    "the reason": (edit_reason, "signature of alice"),
    "a no made a yes": (turn_round, "signature of alice"),
    "the request": (edit_request, "request digest"),
    "the request's id": (point_elsewhere, "request digest"),
    "an empty request": (no_request, "request digest"),
    "a figure that is none": (no_number, "request digest"),
    "a key nobody knows": (add_key, "not well formed"),
}


@pytest.mark.parametrize("name", EDITED_FILES)
def test_an_edited_decision_file_is_refused(tmp_path: Path, alice: Person, name: str) -> None:
    edit, named = EDITED_FILES[name]
    run = waiting_run(tmp_path, local=alice)
    path = run.decide(alice, "reject", reason="no")
    rewrite(path, edit)
    error = refused(run, named)
    assert path.name in error.where
    assert not verify(run.run_dir).ok


@pytest.mark.parametrize("content", [b"", b"not json", b"[]", b"null", b"\xff\xfe", b"{" * 5000, b'{"grant": NaN}'])
def test_a_file_that_is_no_decision_is_refused(tmp_path: Path, alice: Person, content: bytes) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice).write_bytes(content)
    refused(run, "decision file")


def test_a_link_in_place_of_a_decision_file_is_not_followed(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    path = run.decide(alice)
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    refused(run, "decision file")


def test_a_decision_file_is_private_and_never_replaced(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    first, second = run.decide(alice), run.decide(alice)
    assert first.name.endswith(".1.json")
    assert second.name.endswith(".2.json")
    assert first.stat().st_mode & 0o777 == 0o600
    assert first.parent.stat().st_mode & 0o777 == 0o700


def test_a_decision_of_another_run_is_refused(tmp_path: Path, alice: Person) -> None:
    here = waiting_run(tmp_path / "a", local=alice)
    there = waiting_run(tmp_path / "b", local=alice, run_id=RUN_ID[:-1] + "2")
    path = there.decide(alice)
    (here.run_dir / "approvals").mkdir()
    shutil.copy(path, here.run_dir / "approvals")
    refused(here, "run id", there.run_dir.name)


def test_a_decision_on_another_candidate_does_not_open_this_gate(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, also=("C3",))
    signed = run.grant(alice, id="C3")
    write_decision(run.run_dir, run.request("C2"), signed)
    refused(run, "request digest")


def test_a_decision_on_a_candidate_that_does_not_wait_is_refused(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    other = replace(run.request(), candidate="C1")
    write_decision(run.run_dir, other, run.grant(alice, request=other.id))
    refused(run, "candidate id: signed for C1")


def test_an_expired_decision_is_refused_and_a_new_one_replaces_it(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice, expires=as_text(NOW + timedelta(hours=1)))
    run.now[0] = NOW + timedelta(hours=2)
    refused(run, "expired: the decision of alice ended at 2026-11-30T14:00:00Z")
    run.decide(alice)
    run.take_in()
    assert run.state().best == "C2"


def test_a_decision_from_the_future_is_refused(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice, time=as_text(NOW + timedelta(hours=1)))
    refused(run, "time: signed at")


def test_a_decision_that_runs_for_longer_than_allowed_is_refused(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(), expires_s=3600))
    run.decide(alice, expires=as_text(NOW + timedelta(days=300)))
    refused(run, "expiry: alice signed for longer than the 3600 s allowed")


@pytest.mark.parametrize("text", ["2026-02-30T00:00:00Z", "2026-11-30T25:00:00Z"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, alice: Person, text: str) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice, expires=text)
    refused(run, "time")


def test_a_replayed_nonce_is_refused(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    signed = run.grant(alice)
    with pytest.raises(ApprovalRefused, match="replayed nonce"):
        check_decision(
            signed, run.request().id, "numerics", policies(run.state(), run.authority), NOW, {signed.grant.nonce}
        )


def test_a_nonce_used_for_one_gate_does_not_open_another(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice, also=("C3",))
    nonce = "ab" * 16
    run.decide(alice, nonce=nonce)
    run.take_in()
    run.decide(alice, id="C3", nonce=nonce)
    refused(run, "replayed nonce")


def test_a_strangers_key_is_refused(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(bob)
    refused(run, bob.signing.public.fingerprint, "belongs to no reviewer")


def test_a_stranger_who_signs_as_a_reviewer_is_refused(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry()))
    run.decide(bob, reviewer="alice")
    refused(run, "belongs to no reviewer")


def test_a_reviewer_who_signs_as_another_is_refused(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(), bob.entry()))
    run.decide(bob, reviewer="alice")
    refused(run, "reviewer: signed as 'alice' with the key of 'bob'")


def test_a_reviewer_of_another_class_is_refused(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(classes=["memory"]), bob.entry()))
    run.decide(alice)
    refused(run, "alice may not approve changes of class numerics")


def test_a_reviewer_whose_time_is_over_is_refused(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(valid_until="2026-11-30T12:30:00Z")))
    run.decide(alice)
    refused(run, "alice is not a reviewer at this time")


def test_one_of_two_persons_is_not_enough(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(), bob.entry(), required={"numerics": 2}))
    run.decide(alice)
    ruling = run.take_in()[0]
    assert ruling.event is None
    assert run.state().best == "C1"
    with pytest.raises(ApprovalRefused, match=r"persons: changes of class numerics need 2, and 1 approved \(alice\)"):
        require_decided(run.run_dir, run.state(), run.authority)
    run.decide(bob)
    run.take_in()
    assert run.state().best == "C2"
    approved = run.state().candidates["C2"].approved
    assert approved is not None
    assert [signed.grant.reviewer for signed in approved.grants] == ["alice", "bob"]


def test_the_same_person_twice_is_one_person(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(), bob.entry(), required={"numerics": 2}))
    run.decide(alice)
    run.decide(alice)
    assert run.take_in()[0].event is None
    with pytest.raises(ApprovalRefused, match="same person twice: alice"):
        require_decided(run.run_dir, run.state(), run.authority)


def test_two_keys_of_one_person_are_one_person(tmp_path: Path, alice: Person, bob: Person) -> None:
    second = Person("alice", person(tmp_path / "second", "alice").signing)
    run = waiting_run(tmp_path, table(alice.entry(), second.entry(), bob.entry(), required={"numerics": 2}))
    run.decide(alice)
    run.decide(second)
    ruling = run.take_in()[0]
    assert ruling.event is None
    assert "same person twice: alice" in ruling.lacking


def test_a_no_counts_for_more_than_a_yes(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(), bob.entry()))
    run.decide(alice)
    run.decide(bob, "reject", reason="the answers of long prompts were not checked")
    run.take_in()
    declined = run.state().candidates["C2"].declined
    assert declined is not None
    assert declined.reason == "the answers of long prompts were not checked"
    assert run.state().best == "C1"


def test_a_person_may_change_their_mind_until_it_is_taken_in(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    run.decide(alice, "reject", reason="no")
    run.decide(alice)
    run.take_in()
    assert run.state().best == "C2"


def with_review(run: Waiting, review: dict[str, Any] | None) -> None:
    """The stack file as it was, with another [review] table."""
    write_stack(run.stack_file.parent, review)


def test_a_reviewer_added_after_the_start_cannot_decide_on_a_waiting_run(
    tmp_path: Path, alice: Person, bob: Person
) -> None:
    run = waiting_run(tmp_path, table(alice.entry()))
    with_review(run, table(alice.entry(), bob.entry()))
    path = run.decide(bob)
    refused(run, "belongs to no reviewer")
    path.unlink()
    run.decide(alice)
    run.take_in()
    assert run.state().best == "C2"


def test_a_table_added_after_the_start_does_not_replace_the_users_own_key(
    tmp_path: Path, alice: Person, bob: Person
) -> None:
    run = waiting_run(tmp_path, local=alice)
    with_review(run, table(bob.entry()))
    path = run.decide(bob)
    refused(run, "belongs to no reviewer")
    path.unlink()
    run.decide(alice)
    refused(run, "belongs to no reviewer")


def test_a_reviewer_removed_since_can_no_longer_approve(tmp_path: Path, alice: Person, bob: Person) -> None:
    run = waiting_run(tmp_path, table(alice.entry(), bob.entry()))
    with_review(run, table(bob.entry()))
    run.decide(alice)
    refused(run, alice.signing.public.fingerprint, "belongs to no reviewer")


def test_a_table_that_was_removed_does_not_make_the_local_user_a_reviewer(
    tmp_path: Path, alice: Person, bob: Person
) -> None:
    run = waiting_run(tmp_path, table(alice.entry()), local=bob)
    with_review(run, None)
    path = run.decide(bob)
    refused(run, "belongs to no reviewer")
    path.unlink()
    run.decide(alice)
    refused(run, "belongs to no reviewer")


def test_a_weaker_count_of_persons_in_the_file_of_today_does_not_count(
    tmp_path: Path, alice: Person, bob: Person
) -> None:
    run = waiting_run(tmp_path, table(alice.entry(), bob.entry(), required={"numerics": 2}))
    with_review(run, table(alice.entry(), bob.entry()))
    run.decide(alice)
    assert run.take_in()[0].event is None


def test_a_key_made_after_the_start_counts_only_when_none_was_recorded(
    tmp_path: Path, alice: Person, bob: Person
) -> None:
    fresh = waiting_run(tmp_path / "fresh", local=alice, recorded_key="")
    fresh.decide(alice)
    fresh.take_in()
    assert fresh.state().best == "C2"
    bound = waiting_run(tmp_path / "bound", local=bob, recorded_key=alice.line)
    bound.decide(bob)
    refused(bound, "belongs to no reviewer")


def test_a_signature_made_for_something_else_is_no_approval(tmp_path: Path, alice: Person) -> None:
    run = waiting_run(tmp_path, local=alice)
    path = run.decide(alice)
    grant = run.grant(alice).grant
    key = tmp_path / "people" / "alice" / "reviewer.key"
    private: Any = load_pem_private_key(key.read_bytes(), None)
    proof = private.sign(sshsig.signed_data(grant.canonical(), "sha512", "git"))
    text = sshsig.armoured(alice.signing.public, put_string(b"ssh-ed25519") + put_string(proof), "sha512", "git")
    rewrite(path, lambda decision: decision.update(grant=grant.model_dump(), signature=text))
    refused(run, "signed for 'git', not for 'infra-agent-approval'")
