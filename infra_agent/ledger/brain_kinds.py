"""Events around a brain: what it asked to see, what a language model was asked and said, what it skipped, how it ended.

Covered: the payloads. The pair asked / answered is written around the call, so that a resumed run replays an answer and
never sends a question twice that was answered. Not covered: folding (`fold`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from infra_agent.ledger.payload import EventData


class ReadingMade(EventData):
    """Something a brain asked to see. What was shown is the artifact; `lines` count it, `total` the whole source."""

    kind: ClassVar[str] = "reading"
    id: str
    turn: int
    action: Literal["read", "search_code", "consult", "recall"]
    source: str
    artifact: str
    lines: int
    total: int
    left_out: str = ""


class SearchStarted(EventData):
    """A brain handed part of the space to the plain search."""

    kind: ClassVar[str] = "search"
    turn: int
    hypothesis: str
    parameters: tuple[str, ...]
    minutes: float


class PredictionScored(EventData):
    """A stated range beside what was measured. `score`: interval score on the log ratio, lower is better."""

    kind: ClassVar[str] = "prediction_scored"
    hypothesis: str
    candidate: str
    rung: str
    metric: str
    low: float
    high: float
    measured: float
    inside: bool
    score: float
    basis: str


class FamilySkipped(EventData):
    """The brain's reason for leaving a lever family untried; its words, not a finding."""

    kind: ClassVar[str] = "family_skipped"
    family: str
    disposition: Literal["ruled_out", "not_applicable", "not_worth_it"]
    reason: str
    evidence: tuple[str, ...] = ()


class LlmAsked(EventData):
    """A language model is about to be asked: stored before the call, with what the answer may cost at most.

    Several asks may share turn and attempt: the earlier ones were lost with the process.
    """

    kind: ClassVar[str] = "llm_asked"
    synced: ClassVar[bool] = True
    ended_by: ClassVar[tuple[str, ...]] = ("llm_answered",)
    id: str
    turn: int
    attempt: int
    purpose: Literal["capability", "decide"]
    model: str
    mode: str
    request_artifact: str
    reserved_input_tokens: int
    reserved_output_tokens: int


class LlmAnswered(EventData):
    """How the call ended. `fault` is empty when the answer holds actions; `correction` is what the model is told.

    `finish` is the model's own reason for ending, or what kept the answer from coming.
    An answer that never came (`fault` lost) is charged in full. `usage` says whether the endpoint reported the tokens.
    `seconds` includes waiting for retries, tokens and `usd` all attempts that were charged.
    """

    kind: ClassVar[str] = "llm_answered"
    synced: ClassVar[bool] = True
    id: str
    fault: str = ""
    correction: str = ""
    actions: tuple[dict[str, Any], ...] = ()
    call_ids: tuple[str, ...] = ()
    dropped: tuple[dict[str, str], ...] = ()
    response_artifact: str = ""
    finish: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    usage: Literal["reported", "reserved", "none"] = "none"
    usd: float | None = None
    seconds: float = 0.0
    retries: int = 0


class LlmModeChosen(EventData):
    """How this endpoint is talked to, found by asking it once: kept for the run."""

    kind: ClassVar[str] = "llm_mode"
    mode: Literal["tools", "json_schema", "text"]
    stream: bool
    stream_usage: bool
    limit_field: Literal["max_tokens", "max_completion_tokens"]
    evidence: str


class BrainFellBack(EventData):
    """The brain gave up and another one goes on from here."""

    kind: ClassVar[str] = "brain_fell_back"
    synced: ClassVar[bool] = True
    turn: int
    brain: str
    to: str
    reason: str
