"""The user's own key: made once, readable by its owner alone, and never used when it is not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from review.waiting import nobody, person, waiting_run

from infra_agent.errors import UsageError
from infra_agent.review import sshsig
from infra_agent.review.local import config_dir, local_public_key
from infra_agent.review.sign import SigningKey, create_key, open_key, restore_public, sign_grant

pytestmark = pytest.mark.requirement("A3")


def test_a_new_key_is_private_from_its_first_byte_and_is_never_replaced(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        public = create_key(tmp_path / "config", "alice")
    finally:
        os.umask(old)
    path = tmp_path / "config" / "reviewer.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert local_public_key(tmp_path / "config") == f"{public.line} alice"
    before = path.read_bytes()
    with pytest.raises(UsageError, match="already"):
        create_key(tmp_path / "config", "alice")
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o601])
def test_a_key_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    create_key(tmp_path, "alice")
    (tmp_path / "reviewer.key").chmod(mode)
    with pytest.raises(UsageError) as caught:
        open_key(tmp_path / "reviewer.key", nobody)
    assert f"{mode:04o}" in caught.value.message
    assert "chmod 600" in caught.value.hint


def test_a_key_with_a_passphrase_needs_it(tmp_path: Path) -> None:
    public = create_key(tmp_path, "alice", b"correct horse")
    path = tmp_path / "reviewer.key"
    assert open_key(path, lambda _: b"correct horse").public == public
    with pytest.raises(UsageError, match="passphrase is wrong"):
        open_key(path, lambda _: b"wrong")
    with pytest.raises(UsageError, match="no terminal"):
        open_key(path, nobody)


def test_a_missing_or_damaged_key_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such key"):
        open_key(tmp_path / "none", nobody)
    path = tmp_path / "bad"
    path.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="damaged"):
        open_key(path, nobody)
    for text in (
        "hello",
        "",
        "ssh-dss AAAA",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nxx\n-----END OPENSSH PRIVATE KEY-----",
    ):
        path.write_text(text)
        with pytest.raises(UsageError):
            open_key(path, nobody)


def test_another_kind_of_key_in_infra_agents_own_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rsa.key"
    key = rsa.generate_private_key(65537, 2048)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(UsageError, match="only Ed25519"):
        open_key(path, nobody)


def test_a_lost_public_half_is_written_again(tmp_path: Path) -> None:
    public = create_key(tmp_path, "alice")
    (tmp_path / "reviewer.pub").unlink()
    assert local_public_key(tmp_path) == ""
    restore_public(tmp_path, "alice", nobody)
    assert local_public_key(tmp_path) == f"{public.line} alice"


def test_a_damaged_public_half_is_an_error_not_an_absent_key(tmp_path: Path) -> None:
    create_key(tmp_path, "alice")
    (tmp_path / "reviewer.pub").write_text("ssh-ed25519 AAAA")
    with pytest.raises(UsageError, match="cannot be used"):
        local_public_key(tmp_path)


def test_a_key_that_signs_something_else_than_it_was_given_is_found_out(tmp_path: Path) -> None:
    run = waiting_run(tmp_path, local=person(tmp_path / "people", "alice"))
    alice = open_key(tmp_path / "people" / "alice" / "reviewer.key", nobody)
    grant = run.grant(person(tmp_path / "people", "carol"), reviewer="carol").grant
    with pytest.raises(UsageError, match="does not hold"):
        sign_grant(grant, SigningKey(alice.public, lambda _: alice.sign(b"something else")))
    other = person(tmp_path / "people", "bob").signing
    with pytest.raises(UsageError, match="not with"):
        sign_grant(grant, SigningKey(alice.public, other.sign))
    assert sshsig.check(grant.canonical(), sign_grant(grant, alice).signature) == alice.public


def test_the_config_directory_can_be_named(tmp_path: Path) -> None:
    assert config_dir({"INFRA_AGENT_CONFIG": str(tmp_path)}) == tmp_path
    assert config_dir({}).name == "infra-agent"
