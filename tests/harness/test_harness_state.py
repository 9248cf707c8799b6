"""What a server of one's own tells about itself becomes signals, and nothing else does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from infra_agent.harness import state

ANSWERS = {
    "/state": (200, json.dumps({"workers": 4, "mode": "fast", "on": True, "nested": {"a": 1}, "none": None}).encode()),
    "/list": (200, b"[1]"),
    "/text": (200, b"busy"),
    "/error": (500, b'{"workers": 4}'),
    "/huge": (200, b'{"a": "' + b"x" * (2 << 20) + b'"}'),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_plain_values_become_signals(url: str) -> None:
    assert state.ask(url, "/state") == {"state.workers": 4, "state.mode": "fast", "state.on": True}


@pytest.mark.parametrize("path", ["/list", "/text", "/error", "/huge", "/absent"])
def test_anything_else_says_nothing(url: str, path: str) -> None:
    assert state.ask(url, path) == {}


def test_a_server_that_is_gone_says_nothing() -> None:
    assert state.ask("http://127.0.0.1:9", "/state") == {}
