"""Words of the answer check: a prompt, an answer, and what a high-precision oracle can be asked.

Covered: plain data, its JSON form, and the protocol of an oracle.
Not covered: asking a server (`collect`), deciding (`compare`), the oracle itself (`oracle`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from probes.base import Json

Endpoint = Literal["chat", "completions"]
END: None = None
"""Stands for end-of-text in a token path: an answer that stopped chose it over every other token."""


class OracleError(Exception):
    """The oracle cannot be started, cannot load the model, broke off, or refused a request."""


class AnswerFileError(ValueError):
    """A document of saved answers or prompts does not have the expected form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPrompt:
    """One prompt. The id is unique within a set."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A generated token as text, and its log-probability in nat as the engine reports it."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said to one prompt, with what it was asked. `error` is set when there is no answer."""

    prompt_id: str
    prompt: str
    endpoint: Endpoint
    max_tokens: int
    text: str = ""
    finish_reason: str | None = None
    output_tokens: int | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    model: str | None = None
    error: str | None = None

    @property
    def asked(self) -> tuple[str, str, int]:
        """The request: prompt, endpoint, token limit."""
        return (self.prompt, self.endpoint, self.max_tokens)

    def to_json(self) -> dict[str, Json]:
        """The answer as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Json) -> Answer:
        """The answer from its JSON object; AnswerFileError when it is not one."""
        try:
            fields = dict(document)
            if fields.get("logprobs") is not None:
                fields["logprobs"] = tuple(TokenLogprob(**entry) for entry in fields["logprobs"])
            answer = cls(**fields)
        except (TypeError, ValueError) as error:
            raise AnswerFileError(f"not a saved answer: {error}") from error
        problem = _wrong_field(answer)
        if problem:
            raise AnswerFileError(f"not a saved answer: {problem}")
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """A text in the oracle's tokens. `faithful`: decoding the ids gives the text back, character for character."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    faithful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRequest:
    """Ask about one fork: after `path[:position]` the candidate chose `path[position]`, the reference `other`."""

    prompt: str
    endpoint: Endpoint
    path: tuple[int | None, ...]
    position: int
    other: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The oracle's view of a fork, log-probabilities in nat.

    `step_nat` (evidence only): distance between neighbouring numbers of the weights' stored 16-bit type at the size of
    the largest logit. `rest_deficit_nat`: over the candidate's tokens after the fork, the largest amount by which a
    token is less likely than the oracle's best one (None when nothing follows); `rest_position` is where.
    """

    path_logp: float
    other_logp: float
    best_logp: float
    best_token: str
    step_nat: float | None = None
    rest_deficit_nat: float | None = None
    rest_position: int | None = None

    @property
    def gap_nat(self) -> float:
        """Distance between the two tokens."""
        return abs(self.path_logp - self.other_logp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """What a 16-bit type alone does to this model: movement of the distance between the two best tokens, in nat."""

    dtype: str
    positions: int
    median_nat: float
    p99_nat: float
    max_nat: float


class Oracle(Protocol):
    """A more precise computation of the same model. Raises OracleError when it cannot answer."""

    @property
    def name(self) -> str:
        """What it is, in words."""
        ...

    def digest(self) -> str:
        """Identity of the model files behind it."""
        ...

    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        """Each text in tokens."""
        ...

    def gaps(self, requests: Sequence[GapRequest]) -> list[Gap]:
        """Each fork judged, in the order asked."""
        ...


def _wrong_field(answer: Answer) -> str:
    expected: Mapping[str, tuple[type, ...]] = {
        "prompt_id": (str,),
        "prompt": (str,),
        "text": (str,),
        "max_tokens": (int,),
        "finish_reason": (str, type(None)),
        "output_tokens": (int, type(None)),
        "model": (str, type(None)),
        "error": (str, type(None)),
    }
    for name, types in expected.items():
        if not isinstance(getattr(answer, name), types):
            return f"{name} is {type(getattr(answer, name)).__name__}"
    return "" if answer.endpoint in ("chat", "completions") else f"endpoint is {answer.endpoint!r}"
