"""A scripted language model behind an OpenAI-compatible endpoint: real HTTP, no weights.

What it says comes from a list, played once from front to back, or from a function of the request. It keeps every
request. The check of the connection is answered as its features say. Also a program that replays a conversation:

    python -m infra_agent.testing.scripted_llm --conversation conversation.jsonl --port 8000
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from infra_agent.testing.replies import Call, Reply, chunks, document

Policy = Callable[[Mapping[str, Any]], Reply]
FEATURES = frozenset({"tools", "json_schema", "stream", "stream_usage", "models"})
CHECK = "ready"
EXHAUSTED = Reply(status=410, error="the script has ended")


class Asked(NamedTuple):
    """One request as it came: body, headers, and whether its answer was sent to the end."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]
    check: bool
    sent: threading.Event


@dataclass(slots=True, kw_only=True)
class ScriptedLlm:
    """The endpoint's behaviour and memory. `url` is set while it serves."""

    policy: Policy | Sequence[Reply]
    model: str = "scripted"
    features: frozenset[str] = FEATURES
    key: str = ""
    """If set, a request without it is answered 401."""
    listed: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the model's entry in /models, e.g. its context length."""
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def questions(self) -> list[Asked]:
        """Requests other than the check of the connection."""
        return [asked for asked in self.asked if not asked.check]

    def take(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[Asked, Reply]:
        """Keep a request and find its reply."""
        with self._lock:
            refused = self._refusal(body, headers)
            check = is_check(body)
            number = len(self.questions)
            asked = Asked(body, headers, check, threading.Event())
            self.asked.append(asked)
        if refused is not None:
            return asked, refused
        if check:
            return asked, self._ready(body)
        if callable(self.policy):
            return asked, self.policy(body)
        return asked, self.policy[number] if number < len(self.policy) else EXHAUSTED

    def _refusal(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply | None:
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return Reply(status=401, error="Incorrect API key provided")
        needs = {"tools": "tools", "response_format": "json_schema", "stream_options": "stream_usage"}
        for name, feature in needs.items():
            if name in body and feature not in self.features:
                return Reply(status=400, error=f"Unrecognized request argument supplied: {name}")
        if body.get("stream") and "stream" not in self.features:
            return Reply(status=400, error="streaming is not supported")
        if body.get("model") != self.model:
            return Reply(status=404, error=f"The model `{body.get('model')}` does not exist")
        return None

    def _ready(self, body: Mapping[str, Any]) -> Reply:
        if "tools" in body:
            return Reply(calls=(Call(CHECK, {"ready": True}),))
        return Reply(content='{"ready": true}')

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[ScriptedLlm]:
        """Serve on the loopback interface until the block is left."""
        server = _Server(("127.0.0.1", port), _handler(self))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(timeout=10)


def is_check(body: Mapping[str, Any]) -> bool:
    """Whether a request is the check of the connection."""
    messages = body.get("messages") or [{}]
    return "check of the connection" in str(messages[-1].get("content"))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that a client has left open must not hold up the end.
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    """One connection; `_handler` makes a class of it per endpoint."""

    protocol_version = "HTTP/1.1"
    llm: ScriptedLlm

    def log_message(self, *_: object) -> None:
        """Nothing: what was asked is kept."""

    def do_GET(self) -> None:
        """The list of models."""
        if "models" not in self.llm.features:
            self._whole(500, {"error": {"message": "no list of models"}})
            return
        entry = {"id": self.llm.model, "object": "model", **self.llm.listed}
        self._whole(200, {"object": "list", "data": [entry]})

    def do_POST(self) -> None:
        """One completion."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked, reply = self.llm.take(body, headers)
        time.sleep(reply.delay_s)
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answer(reply, body)
            asked.sent.set()

    def _answer(self, reply: Reply, body: Mapping[str, Any]) -> None:
        if reply.raw is not None:
            self._bytes(reply.status, reply.raw, reply.headers)
        elif reply.status != 200:
            self._whole(reply.status, {"error": {"message": reply.error, "type": "scripted"}}, reply.headers)
        elif body.get("stream"):
            self._stream(reply, body)
        elif reply.cut_after is not None:
            self._cut()
        else:
            self._whole(200, document(reply, self.llm.model, body))

    def _stream(self, reply: Reply, body: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        ends_s = time.monotonic() + reply.drip_s
        while time.monotonic() < ends_s:
            self._write(b": still here\n\n")
            time.sleep(0.05)
        for number, chunk in enumerate(chunks(reply, self.llm.model, body)):
            if number == reply.cut_after:
                return
            self._write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self._write(b"data: [DONE]\n\n")

    def _cut(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "1000000")
        self.end_headers()
        self._write(b'{"choices": [')
        self.close_connection = True

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _whole(self, status: int, answer: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self._bytes(status, json.dumps(answer).encode(), headers or {})

    def _bytes(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self._write(data)


def _handler(served: ScriptedLlm) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        llm = served

    return Handler


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a recorded conversation until stopped; the first line on stdout is the address as JSON."""
    from infra_agent.testing.conversation import load_conversation, replay

    parser = argparse.ArgumentParser(prog="python -m infra_agent.testing.scripted_llm", description=__doc__)
    parser.add_argument("--conversation", type=Path, required=True, help="JSON lines that `record` wrote")
    parser.add_argument("--port", type=int, default=0, help="port on the loopback interface; a free one by default")
    given = parser.parse_args(argv)
    with replay(load_conversation(given.conversation)).serving(given.port) as llm:
        sys.stdout.write(json.dumps({"url": llm.url, "model": llm.model}) + "\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
