"""`infra-agent review` at a terminal and in a pipe: nothing is approved by accident, everything by a signature."""

from __future__ import annotations

import json
import os
import pty
import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from review.waiting import RUN_ID, Person, Waiting, person, waiting_run
from simulated.stacks import COMMAND, run

from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.store import Ledger
from infra_agent.review.approval import as_text

KEYGEN = shutil.which("ssh-keygen")


@pytest.fixture
def alice(tmp_path: Path) -> Person:
    """The local user: her key lies in the config directory."""
    return person(tmp_path, "alice")


def env(folder: Path, name: str = "alice") -> dict[str, str]:
    return {"INFRA_AGENT_CONFIG": str(folder / name), "INFRA_AGENT_RUNS": str(folder / "runs")}


def key_of(folder: Path, name: str = "alice") -> str:
    return str(folder / name / "reviewer.key")


def review(folder: Path, *args: str, name: str = "alice") -> subprocess.CompletedProcess[str]:
    return run(folder, "review", *args, **env(folder, name))


def approve(folder: Path, waiting: Waiting, *args: str, name: str = "alice") -> subprocess.CompletedProcess[str]:
    prefix = waiting.request().id[:12]
    arguments = ("approve", "last/C2", "--key", key_of(folder, name), "--yes-i-reviewed", prefix, *args)
    return review(folder, *arguments, name=name)


def resume(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "runs", "resume", "last", "--no-sandbox", *args, **env(folder))


def at_terminal(folder: Path, typed: bytes, *args: str, name: str = "alice") -> subprocess.CompletedProcess[str]:
    """The command with a terminal as its standard input, on which something is typed."""
    controller, terminal = pty.openpty()
    try:
        os.write(controller, typed)
        return subprocess.run(
            [*COMMAND, "review", *args], cwd=folder, env={**os.environ, **env(folder, name)}, stdin=terminal,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        os.close(terminal)
        os.close(controller)


def now_waiting(folder: Path, alice: Person, **fields: Any) -> Waiting:
    """A run that waits in the present, so that what the command signs is in time."""
    waiting = waiting_run(folder, local=None if fields.get("review") else alice, **fields)
    waiting.now[0] = datetime.now(UTC)
    return waiting


def error_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)["error"]
    return document


def test_the_list_shows_what_waits_and_an_empty_one_says_so(tmp_path: Path, alice: Person) -> None:
    assert json.loads(review(tmp_path, "list", "--json").stdout) == {"waiting": [], "unreadable": []}
    assert "Nothing waits" in review(tmp_path, "list").stdout
    waiting = now_waiting(tmp_path, alice)
    rows = json.loads(review(tmp_path, "list", "--json").stdout)["waiting"]
    assert [(row["run"], row["candidate"], row["risk"]) for row in rows] == [(RUN_ID, "C2", "numerics")]
    assert rows[0]["request_id"] == waiting.request().id
    assert rows[0]["request_id"].startswith(rows[0]["confirm"])
    assert f"infra-agent review show {RUN_ID}/C2" in review(tmp_path, "list").stdout


def test_a_damaged_run_is_named_and_does_not_hide_the_others(tmp_path: Path, alice: Person) -> None:
    now_waiting(tmp_path, alice)
    broken = waiting_run(tmp_path, local=alice, run_id=RUN_ID[:-1] + "2")
    raw = (broken.run_dir / LEDGER_FILE).read_bytes()
    (broken.run_dir / LEDGER_FILE).write_bytes(raw.replace(b"25.25", b"25.26", 1))
    found = json.loads(review(tmp_path, "list", "--json").stdout)
    assert len(found["waiting"]) == 1
    assert found["unreadable"] == [broken.run_dir.name]


def test_the_evidence_pack_answers_a_persons_questions_in_order(tmp_path: Path, alice: Person) -> None:
    waiting = now_waiting(tmp_path, alice)
    done = review(tmp_path, "show", "last/C2")
    assert done.returncode == 0, done.stderr
    labels = ("Claim", "Change", "Cause", "Predicted", "Measured", "Answers", "Not tested", "Reproduce", "Undo")
    at = [done.stdout.index(f"\n{label}") for label in (*labels, "Approving", "Request", "Decide")]
    assert at == sorted(at)
    assert "no engine" not in done.stdout
    assert "none: its engines could read" in done.stdout
    pack = json.loads(review(tmp_path, "show", "last/c2", "--json").stdout)
    assert pack["request"] == waiting.request().document()
    assert pack["request_id"] == waiting.request().id
    assert pack["status"] == "waiting"
    assert json.loads(review(tmp_path, "show", "last", "--json").stdout) == pack


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("last/C9", "no candidate 'C9'"),
        ("last/C1", "C1 does not wait for a person"),
        ("01ZZZ/C2", "no run '01ZZZ'"),
        ("last/", "no candidate ''"),
    ],
)
@pytest.mark.parametrize("command", ["show", "approve", "reject"])
def test_a_wrong_reference_names_what_waits(tmp_path: Path, alice: Person, command: str, ref: str, says: str) -> None:
    now_waiting(tmp_path, alice)
    reason = ("--reason", "no") if command == "reject" else ()
    done = review(tmp_path, command, ref, *reason, "--json")
    assert done.returncode == 2
    assert says in error_of(done)["message"]
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("A3")
@pytest.mark.parametrize("typed", [b"\n", b"\x04", b"yes\n", b"c2\n", b"C2\x04\x04"])
def test_at_a_terminal_only_the_candidates_id_approves(tmp_path: Path, alice: Person, typed: bytes) -> None:
    waiting = now_waiting(tmp_path, alice)
    before = (waiting.run_dir / LEDGER_FILE).read_bytes()
    done = at_terminal(tmp_path, typed, "approve", "last/C2")
    assert done.returncode == 3, done.stderr
    assert "Not approved" in done.stdout
    assert "Approving" in done.stderr
    assert (waiting.run_dir / LEDGER_FILE).read_bytes() == before
    assert not (waiting.run_dir / "approvals").exists()


def test_at_a_terminal_the_typed_id_approves(tmp_path: Path, alice: Person) -> None:
    waiting = now_waiting(tmp_path, alice)
    done = at_terminal(tmp_path, b"C2\n", "approve", "last/C2", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["status"] == "approved"
    assert answer["fingerprint"] == alice.signing.public.fingerprint
    assert stat.S_IMODE(Path(tmp_path / answer["file"]).stat().st_mode) == 0o600
    assert waiting.state().best == "C2"


def test_a_first_approval_at_a_terminal_makes_the_key_and_says_so(tmp_path: Path) -> None:
    waiting = waiting_run(tmp_path)
    done = at_terminal(tmp_path, b"C2\n", "approve", "last/C2", name="config")
    assert done.returncode == 0, done.stderr
    assert "You had no reviewer key yet: made" in done.stderr
    assert stat.S_IMODE((tmp_path / "config" / "reviewer.key").stat().st_mode) == 0o600
    assert waiting.state().best == "C2"


@pytest.mark.requirement("A3")
def test_without_a_terminal_nothing_is_approved_by_default(tmp_path: Path, alice: Person) -> None:
    waiting = now_waiting(tmp_path, alice)
    key, prefix = key_of(tmp_path), waiting.request().id[:12]
    for args, code, says in (
        ((), 2, "without a terminal"),
        (("--key", key), 2, "without a terminal"),
        (("--yes-i-reviewed", prefix), 2, "without a terminal"),
        (("--key", key, "--yes-i-reviewed", prefix[:11]), 2, "approval refused: request digest"),
        (("--key", key, "--yes-i-reviewed", "0" * 12), 2, "approval refused: request digest"),
        (("--key", key, "--yes-i-reviewed", prefix + "zz"), 2, "approval refused: request digest"),
        (("--key", str(tmp_path / "none"), "--yes-i-reviewed", prefix), 2, "no such key"),
    ):
        done = review(tmp_path, "approve", "last/C2", *args, "--json")
        assert done.returncode == code, done.stdout
        assert says in error_of(done)["message"]
        assert prefix not in done.stdout + done.stderr
    assert waiting.state().best == "C1"
    assert not (waiting.run_dir / "approvals").exists()
    done = approve(tmp_path, waiting, "--reason", "read the pack", "--json")
    assert done.returncode == 0, done.stdout
    assert waiting.state().best == "C2"
    again = approve(tmp_path, waiting, "--json")
    assert again.returncode == 2
    assert "approved already" in error_of(again)["message"]


def test_a_key_that_others_can_read_does_not_sign(tmp_path: Path, alice: Person) -> None:
    waiting = now_waiting(tmp_path, alice)
    Path(key_of(tmp_path)).chmod(0o644)
    done = approve(tmp_path, waiting)
    assert done.returncode == 2
    assert "others can read" in done.stderr
    assert waiting.state().best == "C1"


@pytest.mark.parametrize(("command", "decision"), [("reject", "reject"), ("request-changes", "request_changes")])
def test_a_no_needs_a_reason_and_closes_the_gate(tmp_path: Path, alice: Person, command: str, decision: str) -> None:
    waiting = now_waiting(tmp_path, alice)
    for reason, says in (((), "a reason is needed"), (("--reason", "x" * 2001), "at most 2000 characters")):
        refused = review(tmp_path, command, "last/C2", *reason)
        assert refused.returncode == 2
        assert says in refused.stderr
    done = review(tmp_path, command, "last/C2", "--reason", "long prompts were not checked", "--json")
    assert done.returncode == 0, done.stdout
    declined = waiting.state().candidates["C2"].declined
    assert declined is not None
    assert (declined.decision, declined.reason) == (decision, "long prompts were not checked")
    assert json.loads(review(tmp_path, "list", "--json").stdout)["waiting"] == []
    assert approve(tmp_path, waiting).returncode == 2
    shown = review(tmp_path, "show", "last/C2").stdout
    assert "long prompts were not checked" in shown
    report = json.loads((waiting.run_dir / "report.json").read_text())
    assert report["people"][0]["reviewer"] == "alice"
    assert report["people"][0]["fingerprint"] == alice.signing.public.fingerprint
    assert run(tmp_path, "runs", "verify", "last", **env(tmp_path)).returncode == 0


def test_the_key_command_makes_a_key_once_and_then_shows_it(tmp_path: Path) -> None:
    first = json.loads(review(tmp_path, "key", "--json", name="config").stdout)
    again = json.loads(review(tmp_path, "key", "--json", name="config").stdout)
    assert first == again | {"created": True}
    assert again["created"] is False
    assert first["public_key"].startswith("ssh-ed25519 ")
    assert first["fingerprint"].startswith("SHA256:")
    assert first["fingerprint"] in review(tmp_path, "key", name="config").stdout
    (tmp_path / "config" / "reviewer.pub").unlink()
    assert json.loads(review(tmp_path, "key", "--json", name="config").stdout) == again
    refused = review(tmp_path, "key", "--passphrase", "--json", name="other")
    assert refused.returncode == 2
    assert not (tmp_path / "other").exists()


def test_a_live_run_gets_the_decision_as_a_file_and_takes_it_in_itself(tmp_path: Path, alice: Person) -> None:
    waiting = now_waiting(tmp_path, alice, finished=False)
    with Ledger.open(waiting.run_dir, lambda: datetime.now(UTC)):
        done = approve(tmp_path, waiting, "--json")
        assert done.returncode == 0, done.stdout
        answer = json.loads(done.stdout)
        assert answer["status"] == "stored"
        assert waiting.state().best == "C1"
        assert "not yet taken in" in review(tmp_path, "show", "last/C2").stdout
    waiting.take_in()
    assert waiting.state().best == "C2"


def test_two_persons_sign_one_after_the_other(tmp_path: Path, alice: Person) -> None:
    bob = person(tmp_path, "bob")
    table = {"reviewers": [alice.entry(), bob.entry()], "required": {"numerics": 2}}
    waiting = now_waiting(tmp_path, alice, review=table)
    first = approve(tmp_path, waiting, "--json")
    assert first.returncode == 0, first.stdout
    assert (json.loads(first.stdout)["status"], json.loads(first.stdout)["signed"]) == ("waiting", ["alice"])
    assert "waiting, 1 of 2 signed" in review(tmp_path, "show", "last/C2").stdout
    twice = approve(tmp_path, waiting, "--json")
    assert twice.returncode == 2
    assert "approval refused: same person twice" in error_of(twice)["message"]
    early = resume(tmp_path, "--json")
    assert early.returncode == 2
    assert "approval refused: persons: changes of class numerics need 2" in error_of(early)["message"]
    second = approve(tmp_path, waiting, "--json", name="bob")
    assert json.loads(second.stdout)["status"] == "approved", second.stdout
    assert waiting.state().best == "C2"


@pytest.mark.skipif(KEYGEN is None, reason="OpenSSH is not installed; the signature's form is tested without it")
def test_an_ssh_key_approves_as_well_as_infra_agents_own(tmp_path: Path, alice: Person) -> None:
    path = tmp_path / "id_ed25519"
    subprocess.run([str(KEYGEN), "-q", "-t", "ed25519", "-N", "", "-C", "dora", "-f", str(path)], check=True)
    (tmp_path / "signers").write_text(f"dora {Path(f'{path}.pub').read_text()}")
    waiting = now_waiting(tmp_path, alice, review={"allowed_signers": "./signers"})
    prefix = waiting.request().id[:12]
    done = review(tmp_path, "approve", "last/C2", "--key", str(path), "--yes-i-reviewed", prefix, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["reviewer"] == "dora"
    assert waiting.state().best == "C2"
    assert approve(tmp_path, waiting).returncode == 2
    assert run(tmp_path, "runs", "verify", "last", **env(tmp_path)).returncode == 0


def edit_stack(waiting: Waiting) -> None:
    (waiting.stack_file.parent / "model" / "config.json").write_text("[]")


def edit_evidence(waiting: Waiting) -> None:
    raw = (waiting.run_dir / LEDGER_FILE).read_bytes()
    (waiting.run_dir / LEDGER_FILE).write_bytes(raw.replace(b"25.25", b"25.26", 1))


def edit_artifact(waiting: Waiting) -> None:
    next((waiting.run_dir / "artifacts").iterdir()).write_bytes(b"another log")


EDITS = {
    "stack": (edit_stack, "stack digest"),
    "evidence": (edit_evidence, "evidence digest"),
    "artifact": (edit_artifact, "evidence digest"),
}


@pytest.mark.requirement("A2")
@pytest.mark.parametrize("name", EDITS)
def test_one_edited_byte_refuses_the_approval_at_signing_and_at_resuming(
    tmp_path: Path, alice: Person, name: str
) -> None:
    edit, named = EDITS[name]
    waiting = now_waiting(tmp_path, alice)
    waiting.decide(alice)
    edit(waiting)
    for done in (approve(tmp_path, waiting, "--json"), resume(tmp_path, "--json")):
        assert done.returncode == 2, done.stdout
        assert error_of(done)["message"].startswith(f"approval refused: {named}"), done.stdout
        assert error_of(done)["kind"] == "approval_refused"
        assert "Traceback" not in done.stderr


@pytest.mark.requirement("A2")
def test_a_decision_of_another_run_and_one_that_has_expired_do_not_resume(tmp_path: Path, alice: Person) -> None:
    other = now_waiting(tmp_path / "other", alice)
    waiting = now_waiting(tmp_path, alice, run_id=RUN_ID[:-1] + "2")
    (waiting.run_dir / "approvals").mkdir()
    copy = Path(shutil.copy(other.decide(alice), waiting.run_dir / "approvals"))
    replayed = resume(tmp_path, "--json")
    assert replayed.returncode == 2
    assert "approval refused: run id" in error_of(replayed)["message"]
    copy.unlink()
    begun = datetime.now(UTC) - timedelta(hours=2)
    waiting.decide(alice, time=as_text(begun), expires=as_text(begun + timedelta(hours=1)))
    late = resume(tmp_path, "--json")
    assert late.returncode == 2
    assert "approval refused: expired" in error_of(late)["message"]
    assert approve(tmp_path, waiting).returncode == 0


def test_a_run_on_which_nobody_decided_is_not_resumed_and_says_what_to_do(tmp_path: Path, alice: Person) -> None:
    waiting = now_waiting(tmp_path, alice)
    before = (waiting.run_dir / LEDGER_FILE).read_bytes()
    done = resume(tmp_path, "--json")
    assert done.returncode == 3
    assert error_of(done)["kind"] == "approval_pending"
    assert error_of(done)["hint"] == f"infra-agent review show {RUN_ID}/C2"
    assert (waiting.run_dir / LEDGER_FILE).read_bytes() == before


def test_help_is_there_for_every_review_command(tmp_path: Path) -> None:
    for command in ("list", "show", "approve", "reject", "request-changes", "key"):
        done = review(tmp_path, command, "--help")
        assert done.returncode == 0
        assert "--json" in done.stdout
