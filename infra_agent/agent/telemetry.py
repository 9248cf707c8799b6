"""Spans of a run by the GenAI conventions of OpenTelemetry, and the only place where their names stand.

Only the API is used: without an SDK in the process nothing is recorded. The ledger stays the record; spans are a view
of it for those who collect such. What was said is never in a span. The conventions are in development, as of 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from infra_agent import __version__
from infra_agent.ledger import kinds as k

AGENT = "infra-agent"
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
TOOL = "gen_ai.tool.name"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
FINISH = "gen_ai.response.finish_reasons"
ERROR = "error.type"
INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"
OPENAI = "openai"
"""The protocol that is spoken; the endpoint may be anybody's."""


class ChatSpan:
    """The span of one question."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def answered(self, answered: k.LlmAnswered) -> None:
        """Usage, and the fault if there is one."""
        self._span.set_attribute(INPUT_TOKENS, answered.input_tokens)
        self._span.set_attribute(OUTPUT_TOKENS, answered.output_tokens)
        if answered.finish:
            self._span.set_attribute(FINISH, (answered.finish,))
        if answered.fault:
            self.failed(answered.fault)

    def failed(self, fault: str) -> None:
        """The call gave nothing that can be used."""
        self._span.set_attribute(ERROR, fault)
        self._span.set_status(Status(StatusCode.ERROR))


class Spans:
    """Opens spans. `conversation` is the run's id."""

    def __init__(self, conversation: str, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer(AGENT, __version__)
        self._conversation = conversation

    @contextmanager
    def agent(self) -> Iterator[None]:
        """A brain's whole work on a run."""
        attributes = {OPERATION: INVOKE_AGENT, AGENT_NAME: AGENT, AGENT_VERSION: __version__}
        with self._span(f"{INVOKE_AGENT} {AGENT}", SpanKind.INTERNAL, attributes):
            yield

    @contextmanager
    def chat(self, model: str) -> Iterator[ChatSpan]:
        """One question to a model."""
        attributes = {OPERATION: CHAT, PROVIDER: OPENAI, MODEL: model}
        with self._span(f"{CHAT} {model}", SpanKind.CLIENT, attributes) as span:
            yield ChatSpan(span)

    @contextmanager
    def tool(self, kind: str) -> Iterator[None]:
        """One action carried out by the harness."""
        with self._span(f"{EXECUTE_TOOL} {kind}", SpanKind.INTERNAL, {OPERATION: EXECUTE_TOOL, TOOL: kind}) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute(ERROR, getattr(error, "code", "") or type(error).__name__)
                raise

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: dict[str, str]) -> Iterator[Span]:
        given = {**attributes, CONVERSATION: self._conversation}
        with self._tracer.start_as_current_span(name, kind=kind, attributes=given, record_exception=False) as span:
            yield span
