"""The tools in memory, with the SDK's own client: what is offered, what is refused, what is returned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from agent.sessions import STACK, add_baseline, session_in
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from infra_agent.agent.actions import ACTIONS
from infra_agent.mcp.reading import Reader
from infra_agent.mcp.scope import Scope
from infra_agent.mcp.server import build_server, tool_list
from infra_agent.mcp.tools import all_tools
from infra_agent.publish.publish import publish
from infra_agent.redact.masker import Masker

HYPOTHESIS = {
    "family": "batching", "cause": "one at a time", "place": "admission", "refuted_by": "two at once",
    "predictions": [{"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 3.0}],
}  # fmt: skip
PROPOSAL = {"hypothesis": "H1", "changes": [{"parameter": "continuous_batching", "value": True}], "base": "best"}


def talk(
    folder: Path, dialogue: Callable[[Client], Awaitable[None]], scope: Scope | None = None, *secrets: str
) -> None:  # fmt: skip
    """Connect a client to a server over a folder's runs and let it talk."""
    opened = scope or Scope()
    known = Masker(secrets)
    server = build_server(all_tools(Reader(folder, None, folder), opened, lambda: known))

    async def main() -> None:
        async with Client(server) as client:
            await dialogue(client)

    try:
        asyncio.run(main())
    finally:
        opened.close()


def opened(folder: Path) -> Scope:
    """A scope over a run whose stock was measured; its engine cannot be started."""

    @contextmanager
    def begin() -> Any:
        with session_in(folder, brain="mcp", budget_s=50_000.0, stack=STACK) as session:
            add_baseline(session)
            yield session

    return Scope(begin)


def text_of(result: CallToolResult) -> str:
    return " ".join(getattr(block, "text", "") for block in result.content)


async def refusal(client: Client, name: str, arguments: dict[str, Any]) -> str:
    """The words of a call that is refused, by the tool or by the protocol."""
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return str(error)
    assert result.is_error, result
    return text_of(result)


def test_every_tool_has_a_closed_schema_a_description_hints_and_structured_output(tmp_path: Path) -> None:
    async def dialogue(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} >= {model.model_fields["kind"].default for model in ACTIONS}
        for tool in tools:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert tool.description
            assert tool.title
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is not None
            assert tool.annotations.destructive_hint is not True

    talk(tmp_path, dialogue)


def test_no_tool_can_approve(tmp_path: Path) -> None:
    listed = tool_list(all_tools(Reader(tmp_path, None, tmp_path), Scope()))
    words = ("approve", "grant", "sign", "review", "accept")
    assert not [tool["name"] for tool in listed if any(word in tool["name"] for word in words)]
    fields = {name for tool in listed for name in tool["input_schema"]["properties"]}
    assert not fields & {"approve", "verdict", "gain", "risk", "confidence", "reviewer", "signature"}


def test_what_acts_is_refused_on_a_server_that_was_started_read_only(tmp_path: Path) -> None:
    async def dialogue(client: Client) -> None:
        examples: dict[str, dict[str, Any]] = {
            "measure": {"probe": "load"}, "read": {"path": "x"}, "search_code": {"text": "xx"}, "consult": {},
            "recall": {"section": "tried"}, "hypothesise": HYPOTHESIS, "propose": PROPOSAL,
            "prove": {"candidate": "C1"},
            "search": {"hypothesis": "H1", "minutes": 1}, "conclude": {"reason": "x"}, "dossier": {},
        }  # fmt: skip
        for name, arguments in examples.items():
            said = await refusal(client, name, arguments)
            assert said.startswith(f"Error executing tool {name}: no_scope: "), said
            assert "--allow-run" in said

    talk(tmp_path, dialogue)
    assert not list(tmp_path.iterdir())


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("approve", {"candidate": "C1"}),
    ("review_approve", {"run": "last"}),
    ("run_shell", {"command": "id"}),
    ("", {}),
    ("measure", {}),
    ("measure", {"probe": ["load"]}),
    ("measure", {"probe": "load", "target": "stock", "approve": True}),
    ("measure", {"probe": "x" * 1000}),
    ("measure", {"probe": "nonsense"}),
    ("read", {"path": "../../etc/passwd"}),
    ("read", {"path": "/etc/passwd"}),
    ("read", {"path": "a", "lines": 10**9}),
    ("propose", {"hypothesis": "", "changes": PROPOSAL["changes"]}),
    ("propose", {**PROPOSAL, "hypothesis": "H1; DROP"}),
    ("propose", {**PROPOSAL, "verdict": "accepted"}),
    ("propose", {"hypothesis": "H1", "changes": []}),
    ("prove", {"candidate": "C1"}),
    ("prove", {"candidate": {"$ref": "C1"}}),
    ("hypothesise", {**HYPOTHESIS, "predictions": []}),
    ("hypothesise", {**HYPOTHESIS, "predictions": [{"rung": "load", "metric": "x", "low": -1, "high": 1}]}),
    ("search", {"hypothesis": "H1", "minutes": 10**9}),
    ("conclude", {"reason": "done"}),
    ("conclude", {"reason": "x" * 10_000}),
    ("run_show", {"run": "../../../etc"}),
    ("run_report", {"run": "last", "section": "__class__"}),
    ("run_events", {"after": -5}),
    ("run_events", {"limit": 10**9}),
]


def test_hostile_calls_are_refused_with_words_a_model_can_act_on_and_nothing_is_launched(tmp_path: Path) -> None:
    async def dialogue(client: Client) -> None:
        for name, arguments in HOSTILE:
            said = await refusal(client, name, arguments)
            assert len(said) > 10, (name, arguments)
            assert said != f"Error executing tool {name}", (name, arguments)
            assert "Traceback" not in said

    talk(tmp_path, dialogue, opened(tmp_path))
    assert len(HOSTILE) >= 20
    state = (tmp_path / "run" / "events.jsonl").read_text()
    assert '"kind":"launch"' not in state
    assert '"kind":"candidate"' not in state


def test_the_same_rules_of_conduct_hold_as_for_a_brain(tmp_path: Path) -> None:
    async def dialogue(client: Client) -> None:
        assert "no_hypothesis" in await refusal(client, "propose", PROPOSAL)
        stated = await client.call_tool("hypothesise", HYPOTHESIS)
        assert not stated.is_error, text_of(stated)
        assert stated.structured_content is not None
        assert stated.structured_content["result"] == "H1 is stated"
        assert "repeat" in await refusal(client, "hypothesise", HYPOTHESIS)
        refused = await refusal(client, "conclude", {"reason": "enough"})
        assert "conclude_refused" in refused
        assert "dtype" in refused
        dossier = (await client.call_tool("dossier", {})).structured_content
        assert dossier is not None
        assert "H1 open" in dossier["text"]
        tried = (await client.call_tool("propose", PROPOSAL)).structured_content
        assert tried is not None
        assert tried["result"].startswith("C1 continuous batching: invalid on rung static")

    talk(tmp_path, dialogue, opened(tmp_path))


def test_a_conclusion_with_reasons_ends_the_run_with_a_report(tmp_path: Path) -> None:
    async def dialogue(client: Client) -> None:
        families = ("batching", "dtype", "threads")
        skipped = [{"family": f, "disposition": "not_worth_it", "reason": "no sign of it"} for f in families]
        done = (await client.call_tool("conclude", {"reason": "nothing to do", "skipped": skipped})).structured_content
        assert done is not None
        assert done["finished"] is True
        assert done["outcome"].startswith("Goal not met")
        assert "has ended" in await refusal(client, "consult", {})

    talk(tmp_path, dialogue, opened(tmp_path))
    assert (tmp_path / "run" / "report.html").is_file()


def test_reading_tools_return_what_their_schemas_promise(tmp_path: Path) -> None:
    run_id = "01KBC000000000000000000000"
    with session_in(tmp_path / "made") as session:
        add_baseline(session)
        publish(session.run_dir, session.state)
    (tmp_path / "runs").mkdir()
    (tmp_path / "made" / "run").rename(tmp_path / "runs" / run_id)

    async def dialogue(client: Client) -> None:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("runs_list", {}), ("run_show", {"run": "last"}), ("run_report", {"run": run_id, "section": "all"}),
            ("run_events", {"kinds": ["observation"], "limit": 1}), ("playbook_list", {}), ("stack_show", {}),
        ]  # fmt: skip
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, text_of(result)
            jsonschema.validate(result.structured_content, schemas[name] or {})
        events = (await client.call_tool("run_events", {"kinds": ["observation"], "limit": 1})).structured_content
        assert events is not None
        assert len(events["events"]) == 1
        assert events["left_out"] == 2
        assert "no run" in await refusal(client, "run_show", {"run": "01ZZZ"})

    talk(tmp_path / "runs", dialogue)


@pytest.mark.parametrize("count", [5])
def test_calls_at_the_same_time_are_carried_out_one_after_the_other(tmp_path: Path, count: int) -> None:
    async def dialogue(client: Client) -> None:
        stated = [{**HYPOTHESIS, "cause": f"cause {i}"} for i in range(count)]
        results = await asyncio.gather(*(client.call_tool("hypothesise", each) for each in stated))
        found = {result.structured_content["result"] for result in results if result.structured_content}
        assert found == {f"H{i + 1} is stated" for i in range(count)}

    talk(tmp_path, dialogue, opened(tmp_path))


def test_no_answer_and_no_error_holds_a_secret(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"

    async def dialogue(client: Client) -> None:
        stated = await client.call_tool("hypothesise", {**HYPOTHESIS, "cause": f"the key {secret} is slow"})
        assert not stated.is_error, text_of(stated)
        told = await client.call_tool("dossier", {})
        assert "the key ***" in told.structured_content["text"]
        assert secret not in text_of(told) + str(told.structured_content)
        refused = await client.call_tool("prove", {"candidate": secret})
        assert refused.is_error
        assert secret not in text_of(refused)

    talk(tmp_path, dialogue, opened(tmp_path), secret)
