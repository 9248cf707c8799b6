"""Signatures are OpenSSH's own: what ssh-keygen signs is checked here, and what is signed here ssh-keygen checks."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from review.waiting import nobody, person

from infra_agent.errors import UsageError
from infra_agent.review import sign, sshsig
from infra_agent.review.keys import PublicKey
from infra_agent.review.sign import open_key
from infra_agent.review.wire import put_string
from infra_agent.stack.reviewers import NAMESPACE

pytestmark = pytest.mark.requirement("A2")
MESSAGE = b'{"request":"abc"}'
KEYGEN = shutil.which("ssh-keygen")
with_openssh = pytest.mark.skipif(KEYGEN is None, reason="OpenSSH is not installed; the format is checked natively too")
KINDS = [("ed25519", ""), ("ecdsa", "256"), ("ecdsa", "384"), ("ecdsa", "521"), ("rsa", "2048")]


def ssh_key(folder: Path, kind: str = "ed25519", bits: str = "", passphrase: str = "") -> Path:
    path = folder / f"id_{kind}{bits}"
    size = ["-b", bits] if bits else []
    subprocess.run([str(KEYGEN), "-q", "-t", kind, *size, "-N", passphrase, "-f", str(path)], check=True)
    return path


def mpint(number: int) -> bytes:
    return put_string(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def native(kind: str) -> tuple[PublicKey, bytes]:
    """A key of every supported kind made here, and its proof over MESSAGE: no program is needed for these."""
    data = sshsig.signed_data(MESSAGE, sshsig.HASH)
    if kind == "rsa":
        key = rsa.generate_private_key(65537, 2048)
        public = PublicKey.of_line(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
        return public, put_string(b"rsa-sha2-512") + put_string(key.sign(data, PKCS1v15(), hashes.SHA512()))
    if kind == "ed25519":
        edwards = Ed25519PrivateKey.generate()
        raw = edwards.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        return PublicKey.of_line(raw), put_string(b"ssh-ed25519") + put_string(edwards.sign(data))
    curve = ec.generate_private_key(ec.SECP256R1())
    raw = curve.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return PublicKey.of_line(raw), put_string(b"ecdsa-sha2-nistp256") + put_string(ecdsa(curve, data))


def ecdsa(key: EllipticCurvePrivateKey, data: bytes) -> bytes:
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return mpint(r) + mpint(s)


def hardware(kind: str, flags: int = 1, application: bytes = b"ssh:") -> tuple[PublicKey, bytes]:
    """What a security key does: it signs application, flags, counter and digest instead of the message."""
    data = hashlib.sha256(sshsig.signed_data(MESSAGE, sshsig.HASH)).digest()
    tail = bytes([flags]) + struct.pack(">I", 7)
    inner = hashlib.sha256(application).digest() + tail + data
    if kind == "ed25519":
        name = b"sk-ssh-ed25519@openssh.com"
        key = Ed25519PrivateKey.generate()
        raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        blob = put_string(name) + put_string(raw) + put_string(application)
        return PublicKey(blob), put_string(name) + put_string(key.sign(inner)) + tail
    name = b"sk-ecdsa-sha2-nistp256@openssh.com"
    curve = ec.generate_private_key(ec.SECP256R1())
    point = curve.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    blob = put_string(name) + put_string(b"nistp256") + put_string(point) + put_string(application)
    return PublicKey(blob), put_string(name) + put_string(ecdsa(curve, inner)) + tail


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_signature_of_every_kind_of_key_is_checked_without_any_program(kind: str) -> None:
    key, proof = native(kind)
    assert sshsig.check(MESSAGE, sshsig.armoured(key, proof)) == key
    with pytest.raises(ValueError, match="does not match"):
        sshsig.check(MESSAGE + b" ", sshsig.armoured(key, proof))
    with pytest.raises(ValueError, match="does not match|type"):
        sshsig.check(MESSAGE, sshsig.armoured(native(kind)[0], proof))


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_hardware_key_counts_only_when_it_was_touched(kind: str) -> None:
    key, proof = hardware(kind)
    assert sshsig.check(MESSAGE, sshsig.armoured(key, proof)) == key
    key, proof = hardware(kind, flags=0)
    with pytest.raises(ValueError, match="not touched"):
        sshsig.check(MESSAGE, sshsig.armoured(key, proof))


def test_an_rsa_signature_with_sha1_or_a_short_key_is_refused() -> None:
    data = sshsig.signed_data(MESSAGE, sshsig.HASH)
    for bits, name, digest, says in (
        (1024, b"rsa-sha2-512", hashes.SHA512(), "1024 bits"),
        (2048, b"ssh-rsa", hashes.SHA1(), "type ssh-rsa"),
    ):
        key = rsa.generate_private_key(65537, bits)
        public = PublicKey.of_line(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
        proof = put_string(name) + put_string(key.sign(data, PKCS1v15(), digest))
        with pytest.raises(ValueError, match=says):
            sshsig.check(MESSAGE, sshsig.armoured(public, proof))


@pytest.mark.parametrize("blob", [b"", b"\0", put_string(b"ssh-ed25519"), put_string(b"ssh-dss") + b"x", b"\xff" * 40])
def test_a_key_that_is_none_is_refused(blob: bytes) -> None:
    with pytest.raises(ValueError):
        sshsig.check(MESSAGE, sshsig.armoured(PublicKey(blob), put_string(b"ssh-ed25519") + put_string(b"x" * 64)))


@given(st.data())
def test_no_changed_byte_of_a_signature_goes_unnoticed(data: st.DataObject) -> None:
    text = _SIGNED
    lines = text.splitlines()
    body = "".join(lines[1:-1])
    at = data.draw(st.integers(0, len(body.rstrip("=")) - 2))
    letter = data.draw(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
    if letter == body[at]:
        return
    changed = "\n".join([lines[0], body[:at] + letter + body[at + 1 :], lines[-1]])
    with pytest.raises(ValueError):
        assert sshsig.check(MESSAGE, changed) != _KEY


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_arbitrary_text_is_no_signature(raw: bytes) -> None:
    with pytest.raises(ValueError):
        sshsig.parse(raw.decode("utf-8", "replace"))


_KEY, _PROOF = native("ed25519")
_SIGNED = sshsig.armoured(_KEY, _PROOF)


@with_openssh
@pytest.mark.parametrize(("kind", "bits"), KINDS)
def test_what_ssh_keygen_signs_is_checked_here(tmp_path: Path, kind: str, bits: str) -> None:
    path = ssh_key(tmp_path, kind, bits)
    key = open_key(path, nobody)
    text = key.sign(MESSAGE)
    assert sshsig.check(MESSAGE, text) == key.public
    shown = subprocess.run([str(KEYGEN), "-l", "-f", f"{path}.pub"], capture_output=True, text=True, check=True)
    assert key.public.fingerprint in shown.stdout
    with pytest.raises(ValueError, match="does not match"):
        sshsig.check(MESSAGE[:-1], text)


@with_openssh
def test_what_is_signed_here_ssh_keygen_checks_against_an_allowed_signers_file(tmp_path: Path) -> None:
    alice = person(tmp_path, "alice")
    (tmp_path / "allowed").write_text(f'alice namespaces="{NAMESPACE}" {alice.signing.public.line}\n')
    (tmp_path / "signature").write_text(alice.signing.sign(MESSAGE))
    argv = [str(KEYGEN), "-Y", "verify", "-f", str(tmp_path / "allowed"), "-I", "alice", "-n", NAMESPACE]
    argv += ["-s", str(tmp_path / "signature")]
    assert subprocess.run(argv, input=MESSAGE, capture_output=True, check=False).returncode == 0
    assert subprocess.run(argv, input=MESSAGE + b"!", capture_output=True, check=False).returncode != 0


@with_openssh
def test_the_public_half_is_enough_when_the_private_one_lies_beside_it(tmp_path: Path) -> None:
    path = ssh_key(tmp_path)
    key = open_key(path.with_suffix(".pub"), nobody)
    assert sshsig.check(MESSAGE, key.sign(MESSAGE)) == key.public == open_key(path, nobody).public


def test_without_ssh_keygen_an_ssh_key_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign.shutil, "which", lambda _: None)
    path = tmp_path / "id.pub"
    path.write_text(_KEY.line)
    with pytest.raises(UsageError) as caught:
        open_key(path, nobody)
    assert "ssh-keygen" in caught.value.message
    assert "infra-agent review key" in caught.value.hint


@with_openssh
def test_a_private_ssh_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = ssh_key(tmp_path)
    path.chmod(0o640)
    with pytest.raises(UsageError, match="others can read"):
        open_key(path, nobody)


@with_openssh
def test_a_key_that_ssh_keygen_cannot_use_gives_its_own_words(tmp_path: Path) -> None:
    path = ssh_key(tmp_path)
    public = path.with_suffix(".pub")
    path.unlink()
    with pytest.raises(UsageError) as caught:
        open_key(public, nobody).sign(MESSAGE)
    assert "could not sign" in caught.value.message
    assert caught.value.lines
