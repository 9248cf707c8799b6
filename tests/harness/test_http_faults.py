"""Faults at the wire, made by real sockets, told apart the same way for httpx and for the openai package."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import httpx
import openai
import pytest

from infra_agent.errors import BudgetSpent
from infra_agent.harness.http_faults import fault_of
from infra_agent.harness.ports import free_port
from infra_agent.harness.retry import Fault, Policy, Seams, retry

pytestmark = pytest.mark.requirement("B2")
Serve = Callable[[socket.socket], None]
Ask = Callable[[str, float], object]


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """A server that reads a request and then does whatever it is told to, per connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        stop = threading.Event()

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(10)
                    connection.recv(65536)
                    with suppress(OSError):
                        serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            stop.set()
            thread.join(30)


def says(status: str, *headers: str, body: str = '{"error": {"message": "no"}}') -> Serve:
    head = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers]
    return lambda connection: connection.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())


def resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def breaks_off(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")


def is_silent(connection: socket.socket) -> None:
    time.sleep(1.0)


def with_httpx(url: str, timeout_s: float) -> object:
    answer = httpx.post(f"{url}/chat/completions", json={}, timeout=timeout_s, trust_env=False)
    answer.raise_for_status()
    return answer.json()


def with_openai(url: str, timeout_s: float) -> object:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=timeout_s) as client:
        return client.post("/chat/completions", cast_to=object, body={})


def fault(ask: Ask, url: str, timeout_s: float = 10.0) -> Fault:
    with pytest.raises(Exception) as caught:
        ask(url, timeout_s)
    found = fault_of(caught.value)
    assert found is not None, repr(caught.value)
    return found


CLIENTS = pytest.mark.parametrize("ask", [with_httpx, with_openai])


@CLIENTS
@pytest.mark.parametrize(
    ("serve", "kind", "retry_after"),
    [
        (says("429 Too Many Requests", "retry-after: 7"), "rate_limited", "7"),
        (says("429 Too Many Requests", "retry-after-ms: 1500"), "rate_limited", "1.5"),
        (says("503 Service Unavailable", "retry-after: Mon, 30 Nov 2026 12:00:07 GMT"), "overloaded", None),
        (says("500 Internal Server Error"), "overloaded", None),
        (says("401 Unauthorized"), "final", None),
        (resets, "cut_stream", None),
        (breaks_off, "cut_stream", None),
    ],
)
def test_faults_are_told_apart(ask: Ask, serve: Serve, kind: str, retry_after: str | None) -> None:
    with server(serve) as url:
        found = fault(ask, url)
    assert found.kind == kind
    if retry_after is not None:
        assert found.retry_after == retry_after


@CLIENTS
def test_silence_is_a_timeout_and_a_closed_port_a_connection_fault(ask: Ask) -> None:
    with server(is_silent) as url:
        assert fault(ask, url, timeout_s=0.3).kind == "timeout"
    assert fault(ask, f"http://127.0.0.1:{free_port()}/v1").kind == "connection"


def test_what_is_no_fault_of_the_wire_is_none() -> None:
    assert fault_of(ValueError("bad JSON")) is None
    spent = BudgetSpent("no time")
    spent.__cause__ = TimeoutError()
    assert fault_of(spent) is None


def test_two_bad_answers_and_a_good_one_are_three_requests_to_the_server() -> None:
    answers = iter([says("429 Too Many Requests", "retry-after: 0"), resets, says("200 OK", body='{"ok": true}')])
    served: list[int] = []

    def serve(connection: socket.socket) -> None:
        served.append(1)
        next(answers)(connection)

    seams = Seams(clock=time.monotonic, sleep=time.sleep, random=lambda: 0.01, now=lambda: datetime.now(UTC))
    with server(serve) as url:
        outcome = retry(lambda left_s: with_openai(url, left_s), fault_of=fault_of, policy=Policy(), seams=seams)
    assert outcome.value == {"ok": True}
    assert len(served) == len(outcome.attempts) == 3
