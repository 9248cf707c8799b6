"""Signs decisions with a person's private key. Only the command line's `review` may import this module.

Two kinds of key: one of infra-agent's own (Ed25519, in the user's config directory or in a file), and an SSH key, which
`ssh-keygen -Y sign` uses, so that agents, passphrases and hardware keys work as they do for git.
Covered: making and reading own keys, refusing files that others can read, signing with either.
Not covered: who may approve (`review.policy`), and checking signatures (`review.verify`).
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from infra_agent.errors import UsageError
from infra_agent.review import sshsig
from infra_agent.review.approval import Grant, SignedGrant
from infra_agent.review.keys import PublicKey
from infra_agent.review.local import PRIVATE_FILE, PUBLIC_FILE
from infra_agent.review.wire import Reader, put_string
from infra_agent.stack.reviewers import NAMESPACE

AskPassphrase = Callable[[str], bytes | None]
"""Asks a person for the passphrase of what is named; None when there is nobody to ask."""
_KIND = "ssh-ed25519"
_SSH_MAGIC = b"openssh-key-v1\0"
_MAX_KEY_BYTES = 1 << 20
_SSH_TIMEOUT_S = 300
"""A person may have to find a passphrase or touch a key."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that can sign: its public half, and how to make an armoured signature of a message."""

    public: PublicKey
    sign: Callable[[bytes], str]


def sign_grant(grant: Grant, key: SigningKey) -> SignedGrant:
    """The grant with a signature that was checked at once. UsageError when the key signed something else."""
    message = grant.canonical()
    text = key.sign(message)
    try:
        made_by = sshsig.check(message, text)
    except ValueError as error:
        raise UsageError(f"the key made a signature that does not hold: {error}") from None
    if made_by != key.public:
        raise UsageError(f"signed with {made_by.fingerprint}, not with {key.public.fingerprint}")
    return SignedGrant(grant=grant, signature=text)


def create_key(folder: Path, comment: str, passphrase: bytes | None = None) -> PublicKey:
    """Make this user's reviewer key. The private file is 0600 from its first byte; none is ever replaced."""
    key = Ed25519PrivateKey.generate()
    protection = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
    public = _public_of(key)
    path = folder / PRIVATE_FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as sink:
            sink.write(content)
            sink.flush()
            os.fsync(sink.fileno())
        (folder / PUBLIC_FILE).write_text(f"{public.line} {comment}\n", encoding="utf-8")
    except FileExistsError:
        raise UsageError("there is a reviewer key already", where=str(path)) from None
    except OSError as error:
        raise UsageError(f"the reviewer key cannot be stored: {error.strerror}", where=str(path)) from error
    return public


def restore_public(folder: Path, comment: str, ask: AskPassphrase) -> None:
    """Write the public half of this user's key again when it was lost."""
    public = open_key(folder / PRIVATE_FILE, ask).public
    try:
        (folder / PUBLIC_FILE).write_text(f"{public.line} {comment}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the public key cannot be stored: {error.strerror}", where=str(folder)) from error


def open_key(path: Path, ask: AskPassphrase) -> SigningKey:
    """The key of a file: infra-agent's own form, or an SSH key, private or public half. UsageError says why not."""
    content, found = _read(path)
    if content.startswith((b"-----BEGIN PRIVATE KEY-----", b"-----BEGIN ENCRYPTED PRIVATE KEY-----")):
        _require_private(path, found)
        return _own_key(path, content, ask)
    if b"-----BEGIN OPENSSH PRIVATE KEY-----" in content:
        _require_private(path, found)
        return _ssh_key(path, PublicKey(_ssh_public(content, path)))
    try:
        return _ssh_key(path, PublicKey.of_line(content.decode("utf-8")))
    except (ValueError, UnicodeDecodeError):
        hint = "give the key of `infra-agent review key`, or an SSH key such as ~/.ssh/id_ed25519"
        raise UsageError("not a key that can sign", where=str(path), hint=hint) from None


def _own_key(path: Path, content: bytes, ask: AskPassphrase) -> SigningKey:
    passphrase = ask(str(path)) if b"ENCRYPTED" in content.splitlines()[0] else None
    if passphrase is None and b"ENCRYPTED" in content.splitlines()[0]:
        raise UsageError("the key has a passphrase, and there is no terminal to ask for it", where=str(path))
    try:
        key = load_pem_private_key(content, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        cause = "the passphrase is wrong, or the key is damaged" if passphrase else "the key is damaged"
        raise UsageError(cause, where=str(path)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError("only Ed25519 keys are used in this form", where=str(path), hint="infra-agent review key")
    public = _public_of(key)

    def sign(message: bytes) -> str:
        proof = put_string(_KIND.encode()) + put_string(key.sign(sshsig.signed_data(message, sshsig.HASH)))
        return sshsig.armoured(public, proof)

    return SigningKey(public, sign)


def _public_of(key: Ed25519PrivateKey) -> PublicKey:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return PublicKey(put_string(_KIND.encode()) + put_string(raw))


def _ssh_key(path: Path, public: PublicKey) -> SigningKey:
    program = shutil.which("ssh-keygen")
    if program is None:
        hint = "install OpenSSH (package openssh-client), or use infra-agent's own key: infra-agent review key"
        raise UsageError("ssh-keygen, which signs with SSH keys, is not installed", where=str(path), hint=hint)
    argv = [program, "-Y", "sign", "-q", "-f", str(path), "-n", NAMESPACE]

    def sign(message: bytes) -> str:
        try:
            done = subprocess.run(argv, input=message, capture_output=True, timeout=_SSH_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise UsageError("ssh-keygen did not sign in time", where=str(path)) from None
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            raise UsageError("ssh-keygen could not sign with this key", where=str(path), lines=lines)
        return done.stdout.decode("ascii", "replace")

    return SigningKey(public, sign)


def _ssh_public(content: bytes, path: Path) -> bytes:
    """The public key that an OpenSSH private key file carries in the clear."""
    body = b"".join(line for line in content.splitlines() if not line.startswith(b"-----"))
    try:
        reader = Reader(base64.b64decode(body, validate=True))
        if reader.take(len(_SSH_MAGIC)) != _SSH_MAGIC:
            raise ValueError("another format")
        for _ in range(3):
            reader.string()
        if reader.uint32() != 1:
            raise ValueError("more than one key")
        return reader.string()
    except (ValueError, binascii.Error) as error:
        raise UsageError(f"the SSH key cannot be read: {error}", where=str(path)) from None


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    try:
        with path.open("rb") as source:
            return source.read(_MAX_KEY_BYTES), os.fstat(source.fileno())
    except FileNotFoundError:
        hint = "infra-agent review key makes one"
        raise UsageError("no such key", where=str(path), hint=hint) from None
    except OSError as error:
        raise UsageError(f"the key cannot be read: {error.strerror}", where=str(path)) from None


def _require_private(path: Path, found: os.stat_result) -> None:
    """A private key that other users can read may have been used by them."""
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(
            f"others can read or change this private key (mode {stat.S_IMODE(found.st_mode):04o})",
            where=str(path),
            hint=f"chmod 600 {path}; if others may have copied it, make a new one",
        )
