"""One ledger record: a line of canonical JSON (RFC 8785) that carries its own hash and the hash of the line before.

Covered: sealing, encoding and strict decoding of a record.
Not covered: what a kind's data mean (`kinds`, `fold`), and files (`store`, `chain`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from infra_agent.errors import LedgerError
from infra_agent.ledger import canonical

GENESIS = "0" * 64
"""`prev` of the first event."""
_LONG_NUMBER = re.compile(rb"[0-9]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"seq", "prev", "ts", "kind", "data", "hash"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One record. `seq` counts from 1, `ts` is UTC, `hash` covers everything else in canonical form."""

    seq: int
    prev: str
    ts: str
    kind: str
    data: Mapping[str, Any]
    hash: str


def seal(*, seq: int, prev: str, ts: str, kind: str, data: Mapping[str, Any]) -> Event:
    """Make an event with its hash; LedgerError if the data have no canonical form (NaN, lone surrogate, 2**53)."""
    return seal_line(seq=seq, prev=prev, ts=ts, kind=kind, data=data)[0]


def seal_line(*, seq: int, prev: str, ts: str, kind: str, data: Mapping[str, Any]) -> tuple[Event, bytes]:
    """Make an event, as it will read back, together with its line."""
    as_read, *halves = _parts(seq, prev, ts, kind, data)
    event = Event(seq=seq, prev=prev, ts=ts, kind=kind, data=as_read, hash=_digest(*halves))
    return event, _line(event, *halves)


def encode(event: Event) -> bytes:
    """The event as its one line, newline included."""
    return _line(event, *_parts(event.seq, event.prev, event.ts, event.kind, event.data)[1:])


def decode(line: bytes) -> Event:
    """Read one line back; LedgerError unless it is byte for byte what `encode` writes and its hash matches."""
    event = parse(line)
    halves = _parts(event.seq, event.prev, event.ts, event.kind, event.data)[1:]
    if _digest(*halves) != event.hash:
        raise LedgerError("does not match its hash")
    if _line(event, *halves) != line.removesuffix(b"\n") + b"\n":
        raise LedgerError("is not written in canonical form")
    return event


def parse(line: bytes) -> Event:
    """Read one line's fields without checking its hash: for listings only."""
    try:
        # A hook for every number makes reading slower by half; only one in a great many needs it.
        number = _number if _LONG_NUMBER.search(line) else None
        fields = json.loads(line.decode("utf-8"), parse_int=number, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"is not readable JSON ({error})") from None
    if not isinstance(fields, dict) or fields.keys() != _FIELDS:
        raise LedgerError(f"does not have exactly the fields {', '.join(sorted(_FIELDS))}")
    texts = (fields["prev"], fields["ts"], fields["kind"], fields["hash"])
    if type(fields["seq"]) is not int or not isinstance(fields["data"], dict):
        raise LedgerError("has a field of the wrong type")
    if not all(isinstance(text, str) for text in texts) or not all(map(_DIGEST.fullmatch, (texts[0], texts[3]))):
        raise LedgerError("has a field of the wrong type")
    return Event(**fields)


class _Parts(NamedTuple):
    """The data as they read back, and canonical JSON before and after the place of `hash`: one pass serves all."""

    data: dict[str, Any]
    before: bytes
    after: bytes


def _parts(seq: int, prev: str, ts: str, kind: str, data: Mapping[str, Any]) -> _Parts:
    try:
        body = canonical.canonical(dict(data))
        rest = canonical.dumps({"kind": kind, "prev": prev, "seq": seq, "ts": ts})
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"event {seq} ({kind!r}) has no canonical form: {error}") from None
    return _Parts(body.value, b'{"data":' + body.data, rest[1:])


def _digest(before: bytes, after: bytes) -> str:
    return hashlib.sha256(before + b"," + after).hexdigest()


def _line(event: Event, before: bytes, after: bytes) -> bytes:
    return before + b',"hash":"' + event.hash.encode() + b'",' + after + b"\n"


def _number(text: str) -> int | float:
    # Canonical JSON writes the float 1e20 as an integer; read back as an int it would have no canonical form.
    number = int(text)
    return number if abs(number) <= canonical.SAFE_INT else float(text)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not JSON")
