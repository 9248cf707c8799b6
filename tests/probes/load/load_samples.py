"""Requests and synthetic records shared by the load tests."""

from __future__ import annotations

from typing import Any

from probes.base import Observation, Where
from probes.load.probe import run
from probes.load.types import Closed, LoadRequest, LoadResult, Prompt, RequestRecord
from probes.load.validity import Limits

PROMPTS = tuple(Prompt.of(f"Tell me about number {n} and its neighbours.") for n in range(64))
# Tests share a busy machine with a server thread: the client's delay is judged in tests of its own.
PATIENT = Limits(lag_floor_s=30.0, in_flight_share=0.5, rate_share=0.5)


def ask(url: str, **changes: Any) -> LoadRequest:
    fields: dict[str, Any] = {
        "base_url": url,
        "model": "mock",
        "prompts": PROMPTS,
        "arrivals": Closed(4),
        "requests": 8,
        "warmup_requests": 0,
        "max_tokens": 64,
        "request_timeout_s": 20.0,
    }
    return LoadRequest(**(fields | changes))


def window(request: LoadRequest, limits: Limits = PATIENT) -> tuple[Observation, LoadResult]:
    return run(request, where=Where(whole_system=True), limits=limits)


def record(number: int, sent_s: float, first_s: float, gap_s: float, tokens: int, **changes: Any) -> RequestRecord:
    """A streamed answer of one token per chunk, evenly spaced."""
    times = tuple(first_s + gap_s * index for index in range(tokens))
    fields: dict[str, Any] = {
        "id": number,
        "scheduled_s": sent_s,
        "sent_s": sent_s,
        "end_s": times[-1],
        "first_token_s": times[0],
        "first_answer_s": times[0],
        "last_token_s": times[-1],
        "chunk_times_s": times,
        "output_tokens": tokens,
        "prompt_tokens": 10,
        "finish_reason": "length",
        "model": "mock",
        "text": f"answer {number}",
    }
    return RequestRecord(**(fields | changes))


def failure(number: int, sent_s: float = 0.0) -> RequestRecord:
    return RequestRecord(id=number, scheduled_s=sent_s, sent_s=sent_s, end_s=sent_s + 0.1, error="HTTP 503: busy")
