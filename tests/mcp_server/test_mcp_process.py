"""The server as a process of its own: stdio and HTTP, a probe on the simulated engine, stdout that is protocol only."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from simulated.stacks import COMMAND, events_of, run, stack_file

GOAL = "at 4 concurrent requests, double the output tokens per second within 20 minutes"
SLOW = {"FAKE_GAP_S": "0.03"}
pytestmark = pytest.mark.runs
ATTEMPTS = 4
"""A busy machine may spoil the windows of a baseline; it is measured again then."""
MEASURE = {"probe": "load", "target": "stock"}
HYPOTHESIS = {
    "family": "batching", "cause": "one at a time", "place": "admission", "refuted_by": "two at once",
    "predictions": [{"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 4.0}],
}  # fmt: skip
PROPOSAL = {"hypothesis": "H1", "changes": [{"parameter": "continuous_batching", "value": True}]}


def parameters(folder: Path, *args: str) -> StdioServerParameters:
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": os.environ.get("HOME", "/")}
    return StdioServerParameters(command=sys.executable, args=[*COMMAND[1:], "mcp", *args], env=env, cwd=folder)


def talk(folder: Path, dialogue: Any, *args: str) -> None:
    async def main() -> None:
        async with Client(stdio_client(parameters(folder, *args))) as client:
            await dialogue(client)

    asyncio.run(main())


def test_a_client_probes_the_stack_tests_a_hypothesis_and_the_run_stays_resumable(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]}, SLOW)
    told: list[float] = []

    async def progress(seconds: float, total: float | None, message: str | None) -> None:
        told.append(seconds)

    async def dialogue(client: Client) -> None:
        for _ in range(ATTEMPTS):
            measured = await client.call_tool("measure", MEASURE, progress_callback=progress)
            if not measured.is_error:
                break
        assert not measured.is_error, measured.content
        content = measured.structured_content
        assert content is not None
        load = next(row for row in content["observations"] if row["probe"] == "load")
        assert load["verdict"] == "pass"
        assert {quantity["name"] for quantity in load["quantities"]} >= {"output_tok_per_s", "ttft_p50_s"}
        await client.call_tool("hypothesise", HYPOTHESIS)
        tried = (await client.call_tool("propose", PROPOSAL)).structured_content
        assert tried is not None
        assert tried["result"].startswith("C1 continuous batching")
        listed = (await client.call_tool("runs_list", {})).structured_content
        assert listed is not None
        assert listed["runs"][0]["status"] == "running"

    talk(tmp_path, dialogue, "--goal", GOAL)
    assert told
    events = events_of(tmp_path)
    assert events[0]["data"]["brain"] == "mcp"
    assert [event["data"]["action"]["kind"] for event in events if event["kind"] == "action"] == [
        "measure", "hypothesise", "propose",
    ]  # fmt: skip
    refused = run(tmp_path, "runs", "resume", "last")
    assert refused.returncode == 2
    assert "infra-agent mcp --allow-run" in refused.stderr

    async def again(client: Client) -> None:
        dossier = (await client.call_tool("dossier", {})).structured_content
        assert dossier is not None
        assert "H1" in dossier["text"]
        assert dossier["turn"] == 3

    talk(tmp_path, again, "--allow-run", "last")
    assert run(tmp_path, "runs", "verify", "last").returncode == 0


def frames(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def test_every_line_on_stdout_is_protocol_whatever_the_harness_prints(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]}, {"FAKE_FAULT": "die-at-start"})
    hello = {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"},
    }  # fmt: skip
    with server(tmp_path, "--goal", GOAL) as process:
        assert process.stdin is not None
        process.stdin.write(frames({"id": 1, "method": "initialize", "params": hello}))
        process.stdin.write(frames({"method": "notifications/initialized"}, {"id": 2, "method": "tools/list"}))
        process.stdin.write(b"this is no JSON\n")
        call = {"name": "measure", "arguments": {"probe": "load", "target": "stock"}}
        process.stdin.write(frames({"id": 3, "method": "tools/call", "params": call}))
        process.stdin.flush()
        lines = _until_answered(process, 3)
        rest, narration = process.communicate(timeout=240)
        lines += [json.loads(line) for line in rest.splitlines()]
    assert all(line["jsonrpc"] == "2.0" for line in lines)
    answer = next(line for line in lines if line.get("id") == 3)
    assert answer["result"]["isError"] is True
    assert "«ValueError: this model cannot be loaded»" in answer["result"]["content"][0]["text"]
    assert b"Traceback" not in narration
    assert process.returncode == 0


def _until_answered(process: subprocess.Popen[bytes], id_: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    assert process.stdout is not None
    while not any(line.get("id") == id_ for line in lines):
        line = process.stdout.readline()
        assert line, "the server ended"
        lines.append(json.loads(line))
    return lines


@contextmanager
def server(folder: Path, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """`infra-agent mcp` as a process; it is gone afterwards."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "mcp", *args], cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_the_list_of_tools_is_json_and_ends(tmp_path: Path) -> None:
    done = run(tmp_path, "mcp", "--list")
    tools = {tool["name"]: tool for tool in json.loads(done.stdout)["tools"]}
    assert done.returncode == 0
    assert tools["runs_list"]["annotations"]["readOnlyHint"] is True
    assert tools["propose"]["needs_scope"] is True
    assert tools["propose"]["annotations"]["readOnlyHint"] is False


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--goal", GOAL, "--allow-run", "last"), "one run"),
        (("--budget", "5m"), "new run"),
        (("--allow-run", "last"), "no runs"),
        (("--goal", "make it nice"), "goal"),
    ],
)
def test_what_cannot_be_opened_is_refused_at_the_start(tmp_path: Path, args: tuple[str, ...], named: str) -> None:
    done = run(tmp_path, "mcp", *args, "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2
    assert named in error["message"] + error["kind"]


def test_a_run_of_another_brain_is_not_opened(tmp_path: Path) -> None:
    stack_file(tmp_path, {"compile": [True]}, {"FAKE_FAULT": "die-at-start"})
    run(tmp_path, "run", "--goal", GOAL, "--brain", "playbook")
    done = run(tmp_path, "mcp", "--allow-run", "last")
    assert done.returncode == 2
    assert "belongs to the brain playbook" in done.stderr


def test_over_http_the_token_is_needed_and_a_foreign_host_is_refused(tmp_path: Path) -> None:
    with server(tmp_path, "--http", "--json") as process:
        assert process.stdout is not None
        started = json.loads(b"".join(iter(process.stdout.readline, b"}\n")) + b"}")
        _wait_until_up(started["url"])
        asyncio.run(_talk_http(started["url"], started["token"]))
        assert _status(started["url"], {}) == 401
        assert _status(started["url"], {"Authorization": "Bearer wrong"}) == 401
        foreign = {"Authorization": f"Bearer {started['token']}", "Host": "evil.example"}
        assert _status(started["url"], foreign) in (403, 421)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


async def _talk_http(url: str, token: str) -> None:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "runs_list" in names
        assert (await client.call_tool("runs_list", {})).structured_content == {"runs": []}


def _wait_until_up(url: str) -> None:
    deadline = time.monotonic() + 60
    while _status(url, {}) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _status(url: str, headers: dict[str, str]) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    given = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    request = urllib.request.Request(url, data=body, headers=given, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
