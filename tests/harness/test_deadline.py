"""A call that waits piece by piece ends at its deadline all the same."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness_help import FakeEngine, fake_stack

from infra_agent.harness.deadline import within
from infra_agent.harness.launch_errors import LaunchFailed
from infra_agent.harness.ready import ReadyCheck
from infra_agent.harness.reporter import ask

pytestmark = pytest.mark.requirement("B3")


def test_a_result_and_an_exception_come_through() -> None:
    assert within(10, lambda: 7) == 7
    with pytest.raises(KeyError, match="x"):
        within(10, lambda: {}["x"])


def test_a_call_that_does_not_end_is_given_up() -> None:
    gate = threading.Event()
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no end after 0\.2 s"):
        within(0.2, lambda: gate.wait(60))
    assert time.monotonic() - began < 30
    gate.set()


@contextmanager
def trickle(family: int, address: object, first: bytes) -> Iterator[socket.socket]:
    """A server that answers every connection with a byte each 20 ms, without end."""
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen()
        listener.settimeout(0.1)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=drip, args=(connection,), daemon=True).start()

        def drip(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.sendall(first)
                    while not stop.wait(0.02):
                        connection.sendall(b"x")
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener
        finally:
            stop.set()
            thread.join(30)


@pytest.mark.parametrize(
    "first", [b"HTTP/1.1 200 OK\r\nx-endless: ", b"HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n"]
)
def test_a_server_whose_health_answer_never_ends_is_a_hung_launch(first: bytes) -> None:
    stack = fake_stack()
    stack = stack.model_copy(update={"limits": stack.limits.model_copy(update={"start_timeout_s": 0.7})})
    with trickle(socket.AF_INET, ("127.0.0.1", 0), first) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        check = ReadyCheck(
            base_url=url, engine=FakeEngine(), stack=stack, alive=lambda: True,
            fail=lambda outcome, text: LaunchFailed(text, outcome=outcome), clock=time.monotonic,
            started_at=time.monotonic(),
        )  # fmt: skip
        began = time.monotonic()
        with pytest.raises(LaunchFailed) as caught:
            check.wait()
    assert caught.value.outcome == "hung"
    assert time.monotonic() - began < 60


def test_a_reporter_whose_answer_never_ends_is_an_empty_answer_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "report.sock"
    began = time.monotonic()
    with trickle(socket.AF_UNIX, str(path), b"\x00\x0f\x00\x00"):
        found = ask(tmp_path, timeout_s=0.5)
    assert found.signals == {}
    assert found.errors["reporter"] in ("the reporter's answer did not come to an end", "timed out")
    assert time.monotonic() - began < 60
