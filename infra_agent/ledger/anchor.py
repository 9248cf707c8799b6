"""Anchors: a ledger's head as someone outside the ledger holds it, in an approval, a pull request or a report.

A hash chain alone still verifies after its end was cut off, or after all of it was written anew. An anchor is what it
cannot have foreseen: "event 131 has this hash", kept where the writer of the ledger does not write.

Covered: one spelling for texts, `131:<64 hex digits>`, found in any text.
Not covered: who keeps it (`review`, `publish`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from infra_agent.errors import UsageError
from infra_agent.ledger.chain import Chain, Problem
from infra_agent.ledger.state import RunState

_SPELLING = re.compile(r"(?<![0-9A-Za-z:])([1-9][0-9]{0,15}):([0-9a-f]{64})(?![0-9A-Za-z])")


@dataclass(frozen=True, slots=True)
class Anchor:
    """Number and hash of the event that was last when the anchor was taken. `source` says who holds it."""

    seq: int
    head: str
    source: str = "anchor"

    def __str__(self) -> str:
        return f"{self.seq}:{self.head}"


def anchor_of(state: RunState, source: str = "anchor") -> Anchor:
    """The anchor of a run as it stands now."""
    return Anchor(state.head_seq, state.head_hash, source)


def anchors_in(text: str, source: str) -> tuple[Anchor, ...]:
    """Every anchor written in a text."""
    return tuple(Anchor(int(seq), head, source) for seq, head in _SPELLING.findall(text))


def parse_anchor(text: str, source: str = "anchor") -> Anchor:
    """One anchor, and nothing else; UsageError when it is none."""
    found = anchors_in(text, source)
    if len(found) != 1 or str(found[0]) != text.strip():
        hint = "an event number, a colon, and the 64 hexadecimal digits of its hash"
        raise UsageError(f"{text[:80]!r} is not an anchor", where=source, hint=hint)
    return found[0]


def missing_anchors(chain: Chain, anchors: Iterable[Anchor]) -> Iterator[Problem]:
    """Anchors that the chain does not hold: its end was cut off, or another history stands in its place."""
    events = {event.seq: (line, event) for line, event in reversed(chain.records)}
    for anchor in anchors:
        if anchor.seq not in events:
            yield Problem(anchor.seq, 0, f"event {anchor.seq} is missing: {anchor.source} was written after it")
            continue
        line, event = events[anchor.seq]
        if event.hash != anchor.head:
            yield Problem(anchor.seq, line, f"event {anchor.seq} is not the one that {anchor.source} names")
