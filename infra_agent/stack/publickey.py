"""OpenSSH public keys as text: `ssh-ed25519 AAAA... comment` taken apart and checked for form.

Covered: the key types that can sign an approval, hardware keys among them.
Not covered: certificates; whether the numbers in a key make sense (`review.keys`).
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import NamedTuple

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


class KeyLine(NamedTuple):
    """A public key: its type, its wire form and its comment."""

    kind: str
    blob: bytes
    comment: str


def read_key_line(line: str) -> KeyLine:
    """The parts of a public key line. ValueError says what is wrong with it."""
    kind, _, rest = line.strip().partition(" ")
    encoded, _, comment = rest.strip().partition(" ")
    if kind not in KEY_TYPES:
        shown = kind[:40] or "nothing"
        raise ValueError(f"{shown} is no public key that can sign an approval; known: {', '.join(KEY_TYPES)}")
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(f"the {kind} key is not whole: it is no base64") from None
    if blob_kind(blob) != kind:
        raise ValueError(f"the {kind} key is not whole, or of another type than it says")
    return KeyLine(kind, blob, comment.strip())


def blob_kind(blob: bytes) -> str:
    """The type that a key's wire form names; empty when it names none."""
    if len(blob) < 4:
        return ""
    (length,) = struct.unpack(">I", blob[:4])
    return blob[4 : 4 + length].decode("ascii", "replace") if 4 + length < len(blob) else ""
