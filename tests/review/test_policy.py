"""The [review] table: who may approve, read from a stack file with every mistake named, OpenSSH's own file included."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from review.waiting import Person, person, write_stack

from infra_agent.errors import ApprovalRefused, ConfigError
from infra_agent.review.policy import policy_digest, policy_of
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.files import dump_stack, load_stack, parse_stack
from infra_agent.stack.model import ReviewTable
from infra_agent.stack.reviewers import read_allowed_signers

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def alice(tmp_path: Path) -> Person:
    return person(tmp_path / "people", "alice")


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return person(tmp_path / "people", "bob")


def test_a_table_is_read_whole_and_survives_the_way_into_the_run(tmp_path: Path, alice: Person, bob: Person) -> None:
    review = {
        "reviewers": [alice.entry(classes=["numerics"]), bob.entry(valid_until="2027-01-01T00:00:00+00:00")],
        "required": {"numerics": 2},
        "expires_s": 3600.0,
    }
    stack = load_stack(write_stack(tmp_path, review))
    assert parse_stack(dump_stack(stack)).review == stack.review
    policy = policy_of(stack.review, "")
    assert policy.needed("numerics") == 2
    assert policy.needed("memory") == 1
    assert policy.reviewer(alice.signing.public, "numerics", NOW).name == "alice"
    with pytest.raises(ApprovalRefused, match="alice may not approve changes of class memory"):
        policy.reviewer(alice.signing.public, "memory", NOW)
    with pytest.raises(ApprovalRefused, match="bob is not a reviewer at this time"):
        policy.reviewer(bob.signing.public, "memory", datetime(2027, 1, 2, tzinfo=UTC))


def test_who_approves_is_no_part_of_what_is_measured_but_of_what_is_signed(tmp_path: Path, alice: Person) -> None:
    plain = load_stack(write_stack(tmp_path))
    reviewed = load_stack(write_stack(tmp_path, {"reviewers": [alice.entry()]}))
    assert stack_digest(plain, {}) == stack_digest(reviewed, {})
    assert policy_digest(plain.review, "") != policy_digest(reviewed.review, "")
    assert policy_digest(None, alice.line) != policy_digest(None, "")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reviewers": []}, "names no reviewers"),
        ({"reviewers": [{"name": "x", "key": "ssh-ed25519 AAAA"}]}, "x: the ssh-ed25519 key is not whole"),
        ({"reviewers": [{"name": "x", "key": "ssh-dss AAAA"}]}, "ssh-dss is no public key"),
        ({"required": {"numerics": 2}}, "asks for 2 persons for numerics, and 1 may approve it"),
        ({"required": {"numerics": 0}}, "at least one person"),
        ({"required": {"routine": 1}}, "review.required"),
        ({"expires_s": 0}, "expires_s"),
        ({"expires": 5}, "unknown key 'expires'"),
    ],
    ids=str,
)
def test_a_mistake_in_the_table_names_file_and_cause(
    tmp_path: Path, alice: Person, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_stack(write_stack(tmp_path, {"reviewers": [alice.entry()], **change}))
    assert says in caught.value.message
    assert caught.value.where.startswith("infra-agent.toml")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"classes": ["routine"]}, "classes"),
        ({"valid_until": "2027-01-01T00:00:00"}, "with its zone"),
        ({"valid_until": "soon"}, "valid_until"),
        ({"email": "a@b"}, "email"),
        ({"name": ""}, "name"),
    ],
    ids=str,
)
def test_a_mistake_in_an_entry_is_an_error(tmp_path: Path, alice: Person, entry: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_stack(write_stack(tmp_path, {"reviewers": [alice.entry() | entry]}))
    assert says in f"{caught.value.message} {caught.value.where}"


def test_an_entry_without_a_key_says_which(tmp_path: Path, alice: Person) -> None:
    with pytest.raises(ConfigError, match=r"review.reviewers: reviewer 2: key: missing"):
        load_stack(write_stack(tmp_path, {"reviewers": [alice.entry(), {"name": "x"}]}))


def test_two_names_for_one_key_are_refused_and_two_keys_of_one_name_are_not(
    tmp_path: Path, alice: Person, bob: Person
) -> None:
    with pytest.raises(ConfigError, match="alice and carol have the same key"):
        load_stack(write_stack(tmp_path, {"reviewers": [alice.entry(), alice.entry() | {"name": "carol"}]}))
    stack = load_stack(write_stack(tmp_path, {"reviewers": [alice.entry(), bob.entry() | {"name": "alice"}]}))
    assert {reviewer.name for reviewer in policy_of(stack.review, "").reviewers} == {"alice"}


def test_the_people_of_an_allowed_signers_file_are_recorded_with_the_run(
    tmp_path: Path, alice: Person, bob: Person
) -> None:
    key, other = alice.signing.public.line, bob.signing.public.line
    (tmp_path / "signers").write_text(
        "# who signs\n\n"
        f"alice@example.org {key} a comment\n"
        f'bob@example.org namespaces="git,infra-agent-*",valid-before="20270101Z" {other}\n'
        f'carol@example.org namespaces="git" {other}\n'
    )
    stack = load_stack(write_stack(tmp_path, {"allowed_signers": "./signers"}))
    assert stack.review is not None
    assert stack.review.allowed_signers is None
    assert [entry.name for entry in stack.review.reviewers] == ["alice@example.org", "bob@example.org"]
    assert stack.review.reviewers[1].valid_until == "2027-01-01T00:00:00+00:00"
    assert parse_stack(dump_stack(stack)).review == stack.review


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("alice", "not `principals [options] key`"),
        ("alice ssh-ed25519", "not `principals"),
        ("alice cert-authority {key}", "'cert-authority' is not supported"),
        ('alice namespaces="infra-agent-approval",unheard-of="1" {key}', "'unheard-of' is not supported"),
        ("*@example.org {key}", "is a pattern"),
        ("!bob {key}", "is a pattern"),
        ('alice valid-after="soon" {key}', "'soon' is no time"),
        ("alice ssh-ed25519 AAAA", "not whole"),
    ],
)
def test_a_line_of_an_allowed_signers_file_that_says_something_else_is_refused(
    tmp_path: Path, alice: Person, line: str, says: str
) -> None:
    path = tmp_path / "signers"
    path.write_text("# first\n" + line.format(key=alice.signing.public.line) + "\n")
    with pytest.raises(ConfigError) as caught:
        read_allowed_signers(path)
    assert says in caught.value.message
    assert caught.value.where.endswith(":2")


def test_a_missing_allowed_signers_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_stack(write_stack(tmp_path, {"allowed_signers": "none"}))


def test_a_table_whose_people_were_never_read_admits_nobody() -> None:
    with pytest.raises(ApprovalRefused, match="never read"):
        policy_of(ReviewTable(allowed_signers="x"), "")


def test_without_a_table_and_without_a_key_there_is_nobody(alice: Person) -> None:
    with pytest.raises(ApprovalRefused, match="belongs to no reviewer"):
        policy_of(None, "").reviewer(alice.signing.public, "numerics", NOW)
