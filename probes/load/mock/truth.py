"""What the mock server really did: when it read each request and when it wrote each chunk.

Moments are seconds of the machine's monotonic clock, which all processes share on Linux and macOS. A chunk's moment is
taken just before it is handed to the kernel. Covered: true figures of the requests served, by the definitions of
docs/metrics.md. Not covered: the network between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["content", "reasoning", "tool"]


@dataclass(slots=True, kw_only=True)
class Served:
    """One request. `status` 200 and `complete` only when the whole answer was written."""

    number: int
    received_s: float
    fresh_connection: bool
    status: int = 200
    complete: bool = False
    ended_s: float | None = None
    chunk_times_s: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    chunk_kinds: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    body: Mapping[str, Any] | None = None


def served_of(document: Mapping[str, Any]) -> Served:
    """A row of `/truth`."""
    return Served(**document)


def ttft_s(row: Served) -> float:
    """Reading the request to the first chunk of any content."""
    return row.chunk_times_s[0] - row.received_s


def first_answer_s(row: Served) -> float:
    """The same without reasoning."""
    first = next(time for time, kind in zip(row.chunk_times_s, row.chunk_kinds, strict=True) if kind != "reasoning")
    return first - row.received_s


def tpot_s(row: Served) -> float | None:
    """First to last chunk, per token after the first chunk."""
    later = sum(row.chunk_tokens[1:])
    return (row.chunk_times_s[-1] - row.chunk_times_s[0]) / later if later else None


def e2e_s(row: Served) -> float:
    """Reading the request to the last chunk of content."""
    return row.chunk_times_s[-1] - row.received_s


def window_s(rows: Sequence[Served]) -> float:
    """First request to the last chunk of a complete answer."""
    good = [row for row in rows if row.complete]
    return max(row.chunk_times_s[-1] for row in good) - min(row.received_s for row in rows)


def output_tokens(rows: Sequence[Served]) -> int:
    """Tokens of complete answers."""
    return sum(sum(row.chunk_tokens) for row in rows if row.complete)


def peak_in_flight(rows: Sequence[Served]) -> int:
    """Most requests that were being served at one moment."""
    steps = sorted([(row.received_s, 1) for row in rows] + [(row.ended_s or row.received_s, -1) for row in rows])
    now = peak = 0
    for _, step in steps:
        now += step
        peak = max(peak, now)
    return peak
