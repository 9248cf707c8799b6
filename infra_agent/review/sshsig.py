"""SSHSIG, OpenSSH's signature of a file: checked here without any program, equal to `ssh-keygen -Y verify`.

Every approval is signed in this form, whichever key signs it, so that there is one thing to check and anybody can check
it with OpenSSH too. Source of the format: OpenSSH, PROTOCOL.sshsig.
Covered: parsing, the bytes that are signed, the namespace, writing a signature.
Not covered: private keys (`review.sign`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
import textwrap
from typing import NamedTuple

from infra_agent.review.keys import PublicKey
from infra_agent.review.wire import Reader, put_string
from infra_agent.stack.reviewers import NAMESPACE

_MAGIC = b"SSHSIG"
_VERSION = 1
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_LINE = 70
_HASHES = ("sha256", "sha512")
HASH = "sha512"
"""What this program hashes with when it signs itself; OpenSSH's own default."""


class Signature(NamedTuple):
    """A signature taken apart."""

    key: PublicKey
    namespace: str
    hash: str
    proof: bytes
    """SSH wire form of the signature itself."""


def signed_data(message: bytes, hash_name: str, namespace: str = NAMESPACE) -> bytes:
    """The bytes that a key signs for a message."""
    digest = hashlib.new(hash_name, message).digest()
    return _MAGIC + b"".join(map(put_string, (namespace.encode(), b"", hash_name.encode(), digest)))


def armoured(key: PublicKey, proof: bytes, hash_name: str = HASH, namespace: str = NAMESPACE) -> str:
    """The text form of a signature."""
    parts = (key.blob, namespace.encode(), b"", hash_name.encode(), proof)
    raw = _MAGIC + struct.pack(">I", _VERSION) + b"".join(map(put_string, parts))
    lines = textwrap.wrap(base64.b64encode(raw).decode(), _LINE)
    return "\n".join([_BEGIN, *lines, _END]) + "\n"


def parse(text: str) -> Signature:
    """Take a signature apart. ValueError when it is not whole."""
    lines = text.strip().splitlines()
    if len(lines) < 3 or (lines[0], lines[-1]) != (_BEGIN, _END):
        raise ValueError("no SSH signature")
    try:
        reader = Reader(base64.b64decode("".join(lines[1:-1]), validate=True))
    except binascii.Error:
        raise ValueError("an SSH signature that is no base64") from None
    if reader.take(len(_MAGIC)) != _MAGIC or reader.uint32() != _VERSION:
        raise ValueError("no SSH signature of version 1")
    blob, namespace, reserved = reader.string(), reader.text(), reader.string()
    hash_name, proof = reader.text(), reader.string()
    reader.end()
    if reserved or hash_name not in _HASHES:
        raise ValueError("an SSH signature of an unknown form")
    return Signature(PublicKey(blob), namespace, hash_name, proof)


def check(message: bytes, text: str) -> PublicKey:
    """The key that signed the message as an approval. ValueError when the signature does not hold."""
    signature = parse(text)
    if signature.namespace != NAMESPACE:
        raise ValueError(f"signed for {signature.namespace!r}, not for {NAMESPACE!r}")
    signature.key.check(signature.proof, signed_data(message, signature.hash))
    return signature.key
