"""Every wait of the program has a limit: checked in the source. What waits without one is listed with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.requirement("B3")
WITHOUT_LIMIT = {
    ("infra_agent/harness/keeper.py", "select.select"): "the life-line itself: it closes when the harness dies",
    ("infra_agent/harness/process.py", "selector.select"): "a reader thread, woken through its own pipe",
    ("infra_agent/harness/inject/sitecustomize.py", "listener.accept"): "a thread inside the engine, gone with it",
    ("infra_agent/ledger/lock.py", "lock.acquire"): "the lock was made with a time-out",
    ("infra_agent/harness/command.py", "run.result"): "no wait: the result of a command that has ended",
    ("infra_agent/harness/selftest.py", "thrown.result"): "the attempts in that thread have deadlines of their own",
    ("probes/load/mock/server.py", "self._socket.accept"): "the socket does not block",
    (
        "infra_agent/mcp/scope.py",
        "self._thread.submit(self._stack.close).result",
    ): "the action, by its budget",
    ("infra_agent/mcp/tools.py", "work.result"): "no wait: asyncio.wait said that it is done",
    ("infra_agent/testing/scripted_llm.py", "threading.Event().wait"): "a server that serves until it is stopped",
    ("probes/events/watch.py", "self._thread.join"): "its readings have time-outs, and the window its length",
    ("probes/events/watch.py", "watching.wait"): "no wait of its own: the window ends by its clock",
    ("probes/numeric/candidate/worker.py", "subprocess.run"): "in the candidate's process; the judge ends it",
    ("probes/trace/gil/inside.py", "server.accept"): "a daemon thread inside the program, gone with it",
    ("probes/trace/stalls.py", "self._thread.join"): "it sleeps a tick at most",
    ("probes/net/connector.py", "self._listener.accept"): "the socket does not block",
}
CLIENTS_WITH_OTHER_LIMITS = {
    "probes/load/client.py": "asyncio.timeout around each request",
    "probes/numeric/collect.py": "asyncio.timeout around each request",
}
WAITS = {
    "wait": 0, "communicate": 1, "acquire": 1, "accept": None, "select": 3, "result": 0, "get_result": 0,
}  # fmt: skip
"""Methods that may wait for ever, and how many positional arguments stand before their time-out (None: it has none)."""
CALLS = ("subprocess.run", "subprocess.check_output", "subprocess.check_call", "urllib.request.urlopen", "urlopen")


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("infra_agent", "probes"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def unlimited(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Calls that may wait for ever."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        owner, _, method = function.rpartition(".")
        named = {keyword.arg for keyword in node.keywords}
        limited = bool(named & {"timeout", "timeout_s", None})
        if (function in CALLS and not limited) or _waits(owner, method, len(node.args), limited=limited):
            yield node.lineno, function


def _waits(owner: str, method: str, given: int, *, limited: bool) -> bool:
    if limited or not owner or owner in ("os", "self", "check", "asyncio", "proc", "tree"):
        return False
    if method == "join":
        # Strings have it too; threads are called threads here.
        return given == 0 and any(word in owner.lower() for word in ("thread", "drain", "process", "worker"))
    # A selector's time-out comes first; `select.select` has three lists before it.
    before = 0 if method == "select" and owner != "select" else WAITS.get(method, -1)
    return before is None or (before >= 0 and given <= before)


def clients_without_timeout(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).lower().endswith(("client", "httpx.client")):
            continue
        if any(key.arg == "timeout" and ast.unparse(key.value) == "None" for key in node.keywords):
            yield node.lineno


def test_every_wait_has_a_limit_or_a_reason() -> None:
    found = [(name, line, call) for name, tree in sources() for line, call in unlimited(tree)]
    assert [wait for wait in found if (wait[0], wait[2]) not in WITHOUT_LIMIT] == []


def test_a_client_without_a_timeout_has_another_limit() -> None:
    found = {name for name, tree in sources() for _ in clients_without_timeout(tree)}
    assert found <= CLIENTS_WITH_OTHER_LIMITS.keys()
    for name in found:
        assert "asyncio.timeout(" in (ROOT / name).read_text(encoding="utf-8")


def test_the_rule_finds_what_it_forbids() -> None:
    bad = "p.wait()\nthread.join()\nsubprocess.run(x)\np.communicate()\nlock.acquire()\ns.accept()\nselect.select(a, b)"
    good = "p.wait(5)\np.wait(timeout=5)\n', '.join(x)\nsubprocess.run(x, timeout=3)\nselect.select(a, b, c, 1)\n"
    assert len(list(unlimited(ast.parse(bad)))) == 7
    assert list(unlimited(ast.parse(good))) == []
