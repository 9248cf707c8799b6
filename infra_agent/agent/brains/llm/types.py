"""What goes to a model and what comes back, in this project's words; no endpoint's own types get past `client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from infra_agent.agent.actions import Action

ModeName = Literal["tools", "json_schema", "text"]
LimitField = Literal["max_tokens", "max_completion_tokens"]
MODES: tuple[ModeName, ...] = ("tools", "json_schema", "text")
"""Ways to ask for an action, the most reliable first."""
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """How a model is asked. `window_tokens` holds prompt and answer; more than `corrections` faults in a row end it."""

    model: str
    base_url: str
    timeout_s: float = 600.0
    window_tokens: int = 32_768
    answer_tokens: int = 4_096
    corrections: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Key and extra headers. Kept out of settings, ledger and reprs."""

    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Mode(NamedTuple):
    """What this endpoint understands."""

    name: ModeName
    stream: bool = True
    stream_usage: bool = True
    limit_field: LimitField = "max_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the endpoint counted them. `output` includes `reasoning`, `input` includes `cached`."""

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0


class ToolCall(NamedTuple):
    """A tool call as it was written; `arguments` is unchecked text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer. `reasoning` is kept apart and never parsed. `cut`: why it ended before the model did."""

    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    usage: Usage | None = None
    cut: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request: the complete body, and what it may cost at most."""

    mode: Mode
    body: Mapping[str, Any]
    input_tokens: int
    """Estimated, on the high side."""
    output_tokens: int


Fault = Literal[
    "",
    "empty",
    "truncated",
    "endless",
    "cut",
    "refusal",
    "no_action",
    "two_actions",
    "bad_json",
    "unknown_action",
    "bad_fields",
    "context",
    "endpoint",
    "lost",
]
"""What can be wrong with an answer; empty when nothing is."""


class Dropped(NamedTuple):
    """A call of an answer that is not carried out, and what the model is told about it."""

    call_id: str
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What an answer comes to: actions in order, or a fault with its correction."""

    actions: tuple[Action, ...] = ()
    call_ids: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    fault: Fault = ""
    correction: str = ""


class Exchanged(NamedTuple):
    """A tool call of the last answer with what came of it."""

    call_id: str
    name: str
    arguments: str
    result: str


Exchange = Sequence[Exchanged]
