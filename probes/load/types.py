"""Words of the load probe: what is asked of a server, and what came back.

All times are seconds on the monotonic performance counter, relative to the start of the measured window.
Covered: requests, arrivals, per-request records, the result of one window.
Not covered: images, audio and tool definitions in prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from probes.load.metrics import LoadMetrics

Endpoint = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation to be continued; at least one message."""

    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        if not self.messages:
            raise ValueError("a prompt needs at least one message")

    @classmethod
    def of(cls, text: str) -> Prompt:
        """A prompt of one user message."""
        return cls((Message("user", text),))


@dataclass(frozen=True, slots=True)
class Closed:
    """`concurrency` users, each of whom sends the next request as soon as the last one was answered."""

    concurrency: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {self.concurrency}")


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent arrivals at a mean rate, whatever the server does."""

    rate_per_s: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s > 0):
            raise ValueError(f"rate_per_s must be a positive number, not {self.rate_per_s}")


Arrivals = Closed | Poisson


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

    `base_url` is the server's root, with or without `/v1`. `expected_model` is the name that answers must carry
    (default: `model`). `nonce` puts a short seed-derived mark before each prompt, so that nothing cached from an
    earlier window helps. `per_chunk_usage` asks for token counts in every chunk (`continuous_usage_stats`).
    `via` is the socket of the connector behind which the server is (`probes.net`); None: plain TCP.
    `extra_body` is merged into every request body last. `headers` may hold credentials and is never shown.
    """

    base_url: str
    model: str
    prompts: tuple[Prompt, ...]
    arrivals: Arrivals
    requests: int
    max_tokens: int
    endpoint: Endpoint = "chat"
    warmup_requests: int = 2
    stream: bool = True
    temperature: float = 0.0
    seed: int = 0
    nonce: bool = True
    request_timeout_s: float = 120.0
    expected_model: str | None = None
    per_chunk_usage: bool = False
    slo: Slo | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    via: Path | None = None

    def __post_init__(self) -> None:
        _check_url(self.base_url)
        if not self.prompts:
            raise ValueError("a load needs at least one prompt")
        if self.requests < 1 or self.max_tokens < 1 or self.warmup_requests < 0:
            raise ValueError("requests and max_tokens must be at least 1, warmup_requests at least 0")
        if not (math.isfinite(self.request_timeout_s) and self.request_timeout_s > 0) or self.seed < 0:
            raise ValueError("request_timeout_s must be above 0 and seed at least 0")
        if self.endpoint == "completions" and any(len(prompt.messages) > 1 for prompt in self.prompts):
            raise ValueError("the completions endpoint takes single-message prompts only")

    @property
    def concurrency(self) -> int | None:
        """Requests meant to be in flight at once; None with Poisson arrivals."""
        return min(self.arrivals.concurrency, self.requests) if isinstance(self.arrivals, Closed) else None


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"base_url must look like http://HOST:PORT, not {url!r}")
    if parts.port is not None and parts.port < 1:  # reading `port` raises ValueError when it is no number
        raise ValueError(f"base_url has an impossible port: {url!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request as seen by the client. `error` is None exactly when the answer is complete.

    `scheduled_s`: planned send time (closed loop: when the user was free to send). `first_token_s`: first non-empty
    content, reasoning or tool delta. `first_answer_s`: the same without reasoning. `chunk_times_s`: arrival of every
    such delta. `end_s`: the response was read to its end. `first_chunk_tokens` is known only from per-chunk usage;
    token counts are the server's, None when it sent none. Without streaming there is no first token.
    """

    id: int
    scheduled_s: float
    sent_s: float
    end_s: float
    first_token_s: float | None = None
    first_answer_s: float | None = None
    last_token_s: float | None = None
    chunk_times_s: tuple[float, ...] = ()
    first_chunk_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
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
    """How late the client's own event loop woke during the window."""

    beats: int
    mean_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Raw material of one measured window. `records` are ordered by id; requests never sent have none."""

    records: tuple[RequestRecord, ...]
    warmup: tuple[RequestRecord, ...]
    lag: LoopLag
    wall_s: float


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
