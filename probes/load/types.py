"""Words of the load probe: what is asked of a server, and what came back.

All times are seconds on the monotonic performance counter, relative to the start of the measured window.
Covered: requests, bounds, per-request records, the result of one window. Arrivals have a module of their own.
Not covered: images, audio and tool definitions in prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from probes.load.arrivals import Arrivals as Arrivals
from probes.load.arrivals import Closed as Closed
from probes.load.arrivals import Constant as Constant
from probes.load.arrivals import Poisson as Poisson
from probes.load.arrivals import Trace
from probes.load.hosts import check_target

if TYPE_CHECKING:
    from probes.load.metrics import LoadMetrics

Endpoint = Literal["chat", "completions"]
MAX_PROCESSES = 64
OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect"})


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation to be continued; at least one message.

    `max_tokens` replaces the load's own limit for this prompt. `tokens`: what the server must count for it, where that
    is known beforehand (such a prompt carries its own mark, so no nonce is put before it).
    """

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.messages:
            raise ValueError("a prompt needs at least one message")
        if (self.max_tokens is not None and self.max_tokens < 1) or (self.tokens is not None and self.tokens < 1):
            raise ValueError("max_tokens and tokens of a prompt must be at least 1")

    @classmethod
    def of(cls, text: str) -> Prompt:
        """A prompt of one user message."""
        return cls((Message("user", text),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What one request must satisfy to count as good: upper limits in seconds."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def __post_init__(self) -> None:
        limits = [limit for limit in (self.ttft_s, self.tpot_s, self.e2e_s) if limit is not None]
        if not limits or any(limit <= 0 for limit in limits):
            raise ValueError("an SLO needs at least one limit, and each must be above 0 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """One measured window, complete. Two arms with equal fields send the same bytes at the same planned times.

    `base_url` is the server's root, with or without `/v1`; its host must be this machine or one of `hosts`.
    `expected_model` is the name that answers must carry (default: `model`). `nonce` puts a short seed-derived mark
    before each prompt, so that nothing cached from an earlier window helps. `per_chunk_usage` asks for token counts in
    every chunk (`continuous_usage_stats`). `extra_body` is merged into every request body last. `headers` may hold
    credentials and is never shown.
    Bounds: nothing new is sent after `duration_s` of the window; warm-up and window end within `time_limit_s`, cut off
    if need be. Warm-up goes on until both `warmup_requests` and `warmup_s` are reached.
    `processes` share one plan. `via`: the socket of the connector behind which the server is (`probes.net`); None: by
    plain TCP.
    """

    base_url: str
    model: str
    prompts: tuple[Prompt, ...]
    arrivals: Arrivals
    requests: int
    max_tokens: int
    endpoint: Endpoint = "chat"
    warmup_requests: int = 2
    warmup_s: float = 0.0
    stream: bool = True
    temperature: float = 0.0
    seed: int = 0
    nonce: bool = True
    request_timeout_s: float = 120.0
    duration_s: float | None = None
    time_limit_s: float = 3600.0
    expected_model: str | None = None
    per_chunk_usage: bool = False
    slo: Slo | None = None
    processes: int = 1
    via: Path | None = None
    hosts: tuple[str, ...] = ()
    ca_file: Path | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_target(self.base_url, self.hosts)
        if not self.prompts:
            raise ValueError("a load needs at least one prompt")
        if self.requests < 1 or self.max_tokens < 1 or self.warmup_requests < 0:
            raise ValueError("requests and max_tokens must be at least 1, warmup_requests at least 0")
        if self.seed < 0 or not 1 <= self.processes <= MAX_PROCESSES:
            raise ValueError(f"seed must be at least 0, processes 1 to {MAX_PROCESSES}")
        bounds = {
            "request_timeout_s": self.request_timeout_s,
            "time_limit_s": self.time_limit_s,
            "duration_s": 1.0 if self.duration_s is None else self.duration_s,
        }
        for name, value in bounds.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0, not {value}")
        if not (math.isfinite(self.warmup_s) and 0 <= self.warmup_s < self.time_limit_s):
            raise ValueError(f"warmup_s must be at least 0 and below the time limit, not {self.warmup_s}")
        if self.warmup_s and not self.warmup_requests:
            raise ValueError("warm-up by time needs warmup_requests of at least 1")
        if self.processes > min(self.requests, self.concurrency or self.requests):
            raise ValueError(f"{self.processes} processes need at least as many requests and users")
        if isinstance(self.arrivals, Trace) and len(self.arrivals.times_s) < self.requests:
            raise ValueError(f"the trace has {len(self.arrivals.times_s)} arrivals, not {self.requests}")
        if self.endpoint == "completions" and any(len(prompt.messages) > 1 for prompt in self.prompts):
            raise ValueError("the completions endpoint takes single-message prompts only")
        _check_headers(self.headers)

    @property
    def concurrency(self) -> int | None:
        """Requests meant to be in flight at once; None with open arrivals."""
        return min(self.arrivals.concurrency, self.requests) if isinstance(self.arrivals, Closed) else None

    def prompt(self, number: int) -> Prompt:
        """The prompt of a request: in file order, from the start again when they run out."""
        return self.prompts[number % len(self.prompts)]


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not name or not (name + value).isascii() or not value.isprintable() or any(c in name for c in ": \t\r\n"):
            raise ValueError(f"{name!r} is no header that can be sent")  # the value may be a secret
        if name.lower() in OWN_HEADERS:
            raise ValueError(f"the header {name} is the client's own")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request as seen by the client. `error` is None exactly when the answer is complete.

    `scheduled_s`: planned send time (closed loop: when the user was free to send). `sent_s`: just before the first byte
    was written. `connect_s`: part of the time between them that went into opening a connection.
    `first_token_s`: first non-empty content, reasoning or tool delta. `first_answer_s`: the same without reasoning.
    `chunk_times_s`: arrival of every such delta. `end_s`: the response was read to its end. `chunk_tokens`: tokens of
    each of these chunks, known only from per-chunk usage; None otherwise. `first_chunk_tokens`: its first entry.
    Token counts are the server's, None when it sent none; `cached_tokens` are prompt tokens it took from its cache.
    Without streaming there is no first token.
    """

    id: int
    scheduled_s: float
    sent_s: float
    end_s: float
    connect_s: float = 0.0
    first_token_s: float | None = None
    first_answer_s: float | None = None
    last_token_s: float | None = None
    chunk_times_s: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    first_chunk_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    model: str | None = None
    text: str = ""
    reasoning: str = ""
    error: str | None = None

    @property
    def ok(self) -> bool:
        """The answer came complete."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLag:
    """How late the client's own loop was: in waking up, and in reaching the last of the bytes that were ready."""

    beats: int
    mean_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Raw material of one measured window. `records` are ordered by id; requests never sent have none.

    `cut`: why the window ended before its plan did, None when it did not. `opened`: connections opened inside the
    window. `cpu_s`: processor time of the client over the window, making its records included. `counters`: what the
    server's own counters moved by, where it has them. `zero_s`: the window's start on the machine's monotonic clock.
    """

    records: tuple[RequestRecord, ...]
    warmup: tuple[RequestRecord, ...]
    lag: LoopLag
    wall_s: float
    cut: str | None = None
    opened: int = 0
    cpu_s: float = 0.0
    zero_s: float = 0.0
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A window and its figures. `window_s`: first send to last content; None when nothing was answered."""

    request: LoadRequest
    window: Window
    window_s: float | None
    metrics: LoadMetrics

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        """Measured requests, warm-up left out."""
        return self.window.records
