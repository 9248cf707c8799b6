"""Reads a ledger file from the first byte to the last and says where its chain breaks.

Covered: every record's form, hash, number and link; bytes after the last newline (a torn tail).
Not covered: what the events mean (`fold`), artifacts and the report's anchor (`verify`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infra_agent.errors import LedgerError
from infra_agent.ledger.event import GENESIS, Event, decode, parse

LEDGER_FILE = "events.jsonl"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: the number of the event, its line counted from 1 (0: no line), and what is wrong."""

    seq: int
    line: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """All readable records with their line numbers, the faults found, and what follows the last whole line.

    `size` is the length of the `lines` whole lines in bytes.
    """

    records: tuple[tuple[int, Event], ...]
    problems: tuple[Problem, ...]
    lines: int
    size: int
    tail: bytes

    @property
    def events(self) -> tuple[Event, ...]:
        """The readable events in file order."""
        return tuple(event for _, event in self.records)


def read_chain(run_dir: Path, *, rehash: bool = True) -> Chain:
    """Read a run's ledger. Without `rehash`, for listings, only form, numbers and links are checked."""
    path = run_dir / LEDGER_FILE
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LedgerError(f"the ledger cannot be read: {error.strerror}", where=str(path)) from error
    size = raw.rfind(b"\n") + 1
    records: list[tuple[int, Event]] = []
    problems: list[Problem] = []
    lines = raw[:size].split(b"\n")[:-1]
    for number, found in _walk(lines, rehash):
        if isinstance(found, Problem):
            problems.append(found)
        else:
            records.append((number, found))
    return Chain(records=tuple(records), problems=tuple(problems), lines=len(lines), size=size, tail=raw[size:])


def _walk(lines: list[bytes], rehash: bool) -> Iterator[tuple[int, Event | Problem]]:
    """Yield each line's event, and a problem wherever it does not continue the line before it."""
    due, prev = 1, GENESIS
    for number, line in enumerate(lines, start=1):
        try:
            event = decode(line) if rehash else parse(line)
        except LedgerError as error:
            yield number, Problem(due, number, f"event {due} {error.message}")
            due, prev = due + 1, ""
            continue
        if event.seq != due:
            yield number, Problem(due, number, f"event {due} was due, event {event.seq} stands in its place")
        elif prev and event.prev != prev:
            what = f"event {due} does not continue event {due - 1}: one of the two was changed"
            yield number, Problem(due, number, what if due > 1 else "event 1 names an event before it")
        yield number, event
        due, prev = event.seq + 1, event.hash
