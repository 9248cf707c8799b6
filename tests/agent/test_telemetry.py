from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from ledger.ledger_samples import answered
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanKind, Status, StatusCode, Tracer

from infra_agent.agent.refusals import ActionError
from infra_agent.agent.telemetry import Spans


class Recorded(NonRecordingSpan):
    def __init__(self, name: str, kind: SpanKind, attributes: Mapping[str, Any]) -> None:
        super().__init__(INVALID_SPAN_CONTEXT)
        self.name = name
        self.kind = kind
        self.attributes = dict(attributes)
        self.status: Status | None = None

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status


class Recorder(Tracer):
    def __init__(self) -> None:
        self.spans: list[Recorded] = []

    def start_span(self, name: str, *args: Any, **options: Any) -> Recorded:
        self.spans.append(Recorded(name, options["kind"], options["attributes"]))
        return self.spans[-1]

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **options: Any) -> Iterator[Recorded]:
        yield self.start_span(name, **options)


def test_spans_carry_the_names_of_the_conventions_and_no_content() -> None:
    recorder = Recorder()
    spans = Spans("run-1", recorder)
    with spans.agent(), spans.chat("m") as chat:
        chat.answered(answered(finish="tool_calls"))
    agent, asked = recorder.spans
    assert (agent.name, agent.kind) == ("invoke_agent infra-agent", SpanKind.INTERNAL)
    assert agent.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert (asked.name, asked.kind) == ("chat m", SpanKind.CLIENT)
    assert asked.attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "run-1", "gen_ai.usage.input_tokens": 800, "gen_ai.usage.output_tokens": 20,
        "gen_ai.response.finish_reasons": ("tool_calls",),
    }  # fmt: skip


def test_a_fault_is_an_error_of_its_span() -> None:
    recorder = Recorder()
    with Spans("run-1", recorder).chat("m") as chat:
        chat.answered(answered(fault="truncated", actions=(), call_ids=()))
    span = recorder.spans[0]
    assert span.attributes["error.type"] == "truncated"
    assert span.status is not None
    assert span.status.status_code is StatusCode.ERROR


def test_a_refused_action_is_an_error_with_the_rule_it_broke() -> None:
    recorder = Recorder()
    with pytest.raises(ActionError), Spans("run-1", recorder).tool("propose"):
        raise ActionError("no", code="repeat")
    span = recorder.spans[0]
    assert span.name == "execute_tool propose"
    assert span.attributes["gen_ai.tool.name"] == "propose"
    assert span.attributes["error.type"] == "repeat"


def test_without_an_sdk_nothing_happens_and_nothing_fails() -> None:
    with Spans("run-1").chat("m") as chat:
        chat.answered(answered())
