"""A reviewer's public key: its fingerprint, and whether a signature was made with its private half.

Covered: Ed25519, ECDSA and RSA keys, and the hardware kinds of the first two (a touch of the key is demanded).
Not covered: certificates, DSA, RSA with SHA-1 or fewer than 2048 bits; all are refused.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import SSHPublicKeyTypes, load_ssh_public_key

from infra_agent.review.wire import Reader
from infra_agent.stack.publickey import blob_kind, read_key_line

MIN_RSA_BITS = 2048
_CURVE_HASHES = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}
_RSA_HASHES = {"rsa-sha2-256": hashes.SHA256(), "rsa-sha2-512": hashes.SHA512()}
_TOUCHED = 1
"""Flag of a hardware key's signature: a person touched it."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An OpenSSH public key. Two are equal when their wire forms are; the comment is a label."""

    blob: bytes

    @classmethod
    def of_line(cls, line: str) -> Self:
        """The key of a line as in `id_ed25519.pub`. ValueError says what is wrong with it."""
        return cls(read_key_line(line).blob)

    @property
    def kind(self) -> str:
        """The type, e.g. `ssh-ed25519`."""
        return blob_kind(self.blob)

    @property
    def line(self) -> str:
        """As in `id_ed25519.pub`, without a comment."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """`SHA256:...`, as `ssh-keygen -l` prints it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    def check(self, signature: bytes, data: bytes) -> None:
        """ValueError unless `signature` (SSH wire form) is this key's over `data`."""
        try:
            self._check(signature, data)
        except InvalidSignature:
            raise ValueError("the signature does not match") from None
        except UnsupportedAlgorithm as error:
            raise ValueError(f"the key cannot be used here: {error}") from None

    def _check(self, signature: bytes, data: bytes) -> None:
        reader = Reader(signature)
        algorithm, proof = reader.text(), reader.string()
        signed = self._signed_by_hardware(reader, data) if self.kind.startswith("sk-") else data
        reader.end()
        key = load_ssh_public_key(self.line.encode())
        if algorithm not in (_RSA_HASHES if isinstance(key, rsa.RSAPublicKey) else (self.kind,)):
            raise ValueError(f"a signature of type {algorithm} by a key of type {self.kind}")
        _check_proof(key, algorithm, proof, signed)

    def _signed_by_hardware(self, reader: Reader, data: bytes) -> bytes:
        """What a hardware key signs in place of the data: its application, flags and counter, and their digest."""
        flags, counter = reader.take(1), reader.uint32()
        if not flags[0] & _TOUCHED:
            raise ValueError("the hardware key was not touched")
        application = hashlib.sha256(self._application()).digest()
        return application + flags + struct.pack(">I", counter) + hashlib.sha256(data).digest()

    def _application(self) -> bytes:
        reader = Reader(self.blob)
        for _ in range(3 if "ecdsa" in self.kind else 2):
            reader.string()
        return reader.string()


def _check_proof(key: SSHPublicKeyTypes, algorithm: str, proof: bytes, data: bytes) -> None:
    if isinstance(key, Ed25519PublicKey):
        key.verify(proof, data)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        reader = Reader(proof)
        numbers = encode_dss_signature(reader.mpint(), reader.mpint())
        reader.end()
        key.verify(numbers, data, ec.ECDSA(_CURVE_HASHES[key.key_size]))
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size < MIN_RSA_BITS:
            raise ValueError(f"an RSA key of {key.key_size} bits; {MIN_RSA_BITS} are needed")
        key.verify(proof, data, padding.PKCS1v15(), _RSA_HASHES[algorithm])
    else:
        raise ValueError("a key of a type that cannot sign an approval")
