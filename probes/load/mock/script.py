"""What the mock server does with every request: token times and faults.

Covered: every way in which a real server has made a load tool report a wrong number (the menu of `docs/load.md`).
Not covered: what an engine computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Usage = Literal["when asked", "with last chunk", "every chunk", "never"]
Fault = Literal[
    "none", "stall", "pause", "drop", "reset", "error event", "cut", "not a stream", "http error", "html page", "junk",
    "compressed", "bad chunk", "two lengths", "endless head",
]  # fmt: skip
Answers = Literal["by prompt", "canned", "cached by prompt"]
Ending = Literal["done", "done twice", "no done", "open after done", "usage after done"]
Framing = Literal["chunked", "length", "close"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """`chunks` holds the tokens of each content chunk; times count from the moment at which the request was read.

    `spread_s`: the n-th request's first token comes up to this much later, evenly over requests. `obey_max_tokens`: as
    many tokens as asked for, by repeating the last entry of `chunks`. `slots`: requests served at once, the others
    wait; 0 for no limit. `fault` strikes after `fault_after_chunks`; `pause_s` is the length of a pause.
    `prefill_s_per_token`: added to the first token for each prompt token that the prefix cache does not hold.
    """

    model: str = "mock"
    first_token_s: float = 0.05
    spread_s: float = 0.0
    gap_s: float = 0.01
    chunks: tuple[int, ...] = (1,) * 10
    obey_max_tokens: bool = False
    role_chunk: bool = True
    reasoning_chunks: int = 0
    reasoning_key: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    tool_chunks: int = 0
    usage: Usage = "when asked"
    usage_delay_s: float = 0.0
    tokens_claimed: int | None = None
    finish_reason: str | None = "length"
    finish_chunk: bool = False
    slots: int = 0
    fail_every: int = 0
    fail_status: int = 503
    fault: Fault = "none"
    fault_after_chunks: int = 3
    pause_s: float = 0.5
    answers: Answers = "by prompt"
    trickle: bool = False
    split_utf8: bool = False
    crlf: bool = False
    multiline: bool = False
    comments: bool = False
    byte_order_mark: bool = False
    ending: Ending = "done"
    framing: Framing = "chunked"
    keep_alive: bool = True
    idle_close_s: float | None = None
    slow_accept_s: float = 0.0
    huge_bytes: int = 0
    prefix_cache: bool = False
    prefill_s_per_token: float = 0.0
    keep_bodies: bool = True

    def __post_init__(self) -> None:
        if not self.chunks or any(tokens < 1 for tokens in self.chunks):
            raise ValueError("chunks holds at least one chunk of at least one token")

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Script:
        """A script from JSON. ValueError for an unknown key."""
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(document) - known):
            raise ValueError(f"no such setting: {', '.join(unknown)}")
        fields = dict(document)
        if "chunks" in fields:
            fields["chunks"] = tuple(int(tokens) for tokens in fields["chunks"])
        return cls(**fields)

    def chunk_plan(self, max_tokens: int | None) -> tuple[int, ...]:
        """Tokens of each chunk of one answer."""
        if not self.obey_max_tokens or max_tokens is None:
            return self.chunks
        plan, left = [], max_tokens
        for index in range(max_tokens):
            tokens = min(left, self.chunks[min(index, len(self.chunks) - 1)])
            plan.append(tokens)
            left -= tokens
            if not left:
                break
        return tuple(plan)
