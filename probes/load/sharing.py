"""How much of a window's prompts a prefix cache may rightly have saved.

Prompts share what they begin with. Text that no earlier prompt of this window began with is new, and its tokens
(at least one for each 8 characters) cannot come from a cache, unless an earlier window or another client left them
there: then the window measures that, not the server. Covered: sharing within the window and its warm-up.
Not covered: how much a cache should have saved (it may be off or full).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from probes.load.body import contents, warmup_contents
from probes.load.types import LoadRequest, RequestRecord, Window

BLOCK_CHARS = 32
CHARS_PER_TOKEN = 8
SLACK = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Prompt tokens that came from the server's cache, and the most that may have."""

    cached: float
    prompt_tokens: float
    allowed: float
    source: str


def sharing(window: Window, request: LoadRequest) -> Sharing | None:
    """None when the server tells nothing about its cache."""
    good = [record for record in sorted(window.records, key=lambda record: record.sent_s) if record.ok]
    told = [record for record in good if record.cached_tokens is not None and record.prompt_tokens is not None]
    counted = {"cached_tokens", "prompt_tokens"} <= window.counters.keys()
    if not good or not (counted or len(told) == len(good)):
        return None
    novel = novel_chars(
        [*warmup_contents(request, len(window.warmup)), *(contents(request, record.id) for record in good)]
    )[len(window.warmup) :]
    prompt_tokens = float(sum(record.prompt_tokens or 0 for record in good))
    allowed = float(sum(_allowed(record, chars) for record, chars in zip(good, novel, strict=True)))
    allowed += SLACK * prompt_tokens
    if len(told) == len(good):
        cached, source = float(sum(record.cached_tokens or 0 for record in told)), "usage of the answers"
    else:
        cached, source = window.counters["cached_tokens"], "the server's counters"
    return Sharing(cached=cached, prompt_tokens=prompt_tokens, allowed=allowed, source=source)


def novel_chars(prompts: Iterable[Sequence[str]]) -> list[int]:
    """Characters of each prompt behind what some earlier prompt began with, in whole blocks."""
    seen: set[int] = set()
    found = []
    for parts in prompts:
        text = "\x00".join(parts)
        chain, shared, known = 0, 0, True
        for start in range(0, len(text), BLOCK_CHARS):
            chain = hash((chain, text[start : start + BLOCK_CHARS]))
            known = known and chain in seen
            shared += len(text[start : start + BLOCK_CHARS]) * known
            seen.add(chain)
        found.append(len(text) - shared)
    return found


def _allowed(record: RequestRecord, novel: int) -> int:
    return max(0, (record.prompt_tokens or 0) - novel // CHARS_PER_TOKEN)
