"""The mock server: one thread on the same loop as the client, in a process of its own.

Covered: chat and text completions, `/health`, `/v1/models`, `/metrics`, `/tokenize`; `/script` sets what it does next,
`/truth` tells what it did. Not covered: pipelining, request bodies without a length, TLS.
"""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from probes.load.mock import events
from probes.load.mock.prompt import PrefixCache, is_chat, seed_of, text_of, tokens_of
from probes.load.mock.script import Script
from probes.load.mock.stream import Stream
from probes.load.mock.truth import Served
from probes.load.wire.loop import Loop
from probes.load.wire.poller import READ, WRITE, nodelay

READ_BYTES = 256 * 1024
BACKLOG = 4096
LATEST_START_S = 0.01
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,12})\r\n", re.IGNORECASE)


class MockServer:
    """Serves until `stop`. `port` is known at once."""

    def __init__(self, loop: Loop, script: Script, port: int = 0) -> None:
        self.loop = loop
        self.script = script
        self._socket = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])
        self._peers: set[_Peer] = set()
        self._waiting: deque[Callable[[], None]] = deque()
        self._todo: deque[Callable[[], None]] = deque()
        loop.watch(self._socket.fileno(), READ, self._accept)
        self._reset()

    def close(self) -> None:
        """Hang up on everyone."""
        for peer in tuple(self._peers):
            peer.close()
        self.loop.forget(self._socket.fileno())
        self._socket.close()

    def _reset(self) -> None:
        self.served: list[Served] = []
        self.connections = 0
        self.cache = PrefixCache()
        self._answered: set[int] = set()
        self._taken = 0
        self._waiting.clear()
        self._todo.clear()

    def _accept(self, _: int) -> None:
        while True:
            try:
                sock, _address = self._socket.accept()
            except BlockingIOError:
                return
            self.connections += 1
            self._peers.add(_Peer(self, sock))
            if self.script.slow_accept_s:
                self.loop.forget(self._socket.fileno())
                self.loop.at(self.loop.clock() + self.script.slow_accept_s, self._listen_again)
                return

    def _listen_again(self) -> None:
        self.loop.watch(self._socket.fileno(), READ, self._accept)

    def request(self, peer: _Peer, line: str, raw: bytes) -> None:
        """One whole request was read from this connection."""
        received_s = self.loop.clock()
        method, path = line.split(" ")[:2]
        path = path.partition("?")[0]
        if method == "POST" and path in ("/v1/chat/completions", "/v1/completions"):
            # Done when no other request waits to be stamped, or when its first token comes near.
            self._todo.append(lambda: self._complete(peer, received_s, raw))
            self.loop.at(received_s + min(LATEST_START_S, self.script.first_token_s / 2), self._hurry)
        elif path == "/script" and method == "POST":
            self._set_script(peer, raw)
        elif path == "/truth":
            self.connections -= peer.requests == 1  # whoever asks for the truth is no client
            peer.document(
                200, {"connections": self.connections, "served": [dataclasses.asdict(s) for s in self.served]}
            )
        elif path in ("/tokenize", "/v1/tokenize") and method == "POST":
            tokens = tokens_of(json.loads(raw))
            peer.document(200, {"count": len(tokens), "tokens": list(range(len(tokens))), "max_model_len": 1 << 20})
        elif path == "/metrics":
            peer.text(self._metrics())
        elif path == "/v1/models":
            peer.document(200, {"object": "list", "data": [{"id": self.script.model, "object": "model"}]})
        else:
            peer.document(200 if path == "/health" else 404, {"status": "ok" if path == "/health" else "no such page"})

    def step(self) -> bool:
        """Begin one answer; whether more wait."""
        if self._todo:
            self._todo.popleft()()
        return bool(self._todo)

    def _hurry(self) -> None:
        self.step()

    def _set_script(self, peer: _Peer, raw: bytes) -> None:
        try:
            script = Script.of(json.loads(raw))
        except (ValueError, TypeError) as error:
            peer.document(400, {"error": {"message": str(error)}})
            return
        self.script = script
        self._reset()
        peer.document(200, {"status": "ok"})

    def _metrics(self) -> str:
        if not self.script.prefix_cache:
            return ""
        label = f'{{model_name="{self.script.model}"}}'
        return (
            f"vllm:prefix_cache_queries_total{label} {self.cache.queries}\n"
            f"vllm:prefix_cache_hits_total{label} {self.cache.hits}\n"
        )

    def _complete(self, peer: _Peer, received_s: float, raw: bytes) -> None:
        script, fresh = self.script, peer.requests == 1
        served = Served(number=len(self.served), received_s=received_s, fresh_connection=fresh)
        self.served.append(served)
        try:
            body = json.loads(raw)
        except ValueError:
            self._refuse(peer, served, 400, {"error": {"message": "not JSON"}})
            return
        served.body = body if script.keep_bodies else None
        if script.fail_every and served.number % script.fail_every == 0:
            wait_s = received_s + script.first_token_s
            message = {"error": {"message": "busy"}}
            self.loop.at(wait_s, lambda: self._refuse(peer, served, script.fail_status, message))
        elif script.fault == "http error":
            self._refuse(peer, served, 400, {"error": {"message": "no such model"}})
        elif script.fault in ("html page", "junk", "compressed"):
            self._nonsense(peer, served)
        elif script.slots and self._taken >= script.slots:
            self._waiting.append(lambda: self._answer(peer, served, body, self.loop.clock()))
        else:
            self._answer(peer, served, body, received_s)

    def _answer(self, peer: _Peer, served: Served, body: dict[str, Any], start_s: float) -> None:
        script = self.script
        self._taken += 1
        tokens = tokens_of(body)
        cached = self.cache.look(tokens) if script.prefix_cache else None
        served.prompt_tokens = len(tokens)
        seed = seed_of(text_of(body))
        instant = script.answers == "cached by prompt" and seed in self._answered
        self._answered.add(seed)
        stream = Stream(self.loop, peer, script, served, body, (len(tokens), cached), instant, self._slot_free)
        if body.get("stream") and script.fault != "not a stream":
            peer.stream = stream
            stream.begin(start_s)
        else:
            self._whole(peer, served, body, start_s, cached)

    def _whole(self, peer: _Peer, served: Served, body: dict[str, Any], start_s: float, cached: int | None) -> None:
        script = self.script
        asked = body.get("max_tokens")
        plan = script.chunk_plan(asked if isinstance(asked, int) else None)
        claimed = sum(plan) if script.tokens_claimed is None else script.tokens_claimed
        text = text_of(body) if script.answers != "canned" else ""
        answer = "".join(events.words(seed_of(text), len(plan)))
        counts = events.usage(served.prompt_tokens, claimed, cached)

        def write() -> None:
            served.chunk_times_s.append(self.loop.clock())
            served.chunk_tokens.append(sum(plan))
            served.chunk_kinds.append("content")
            served.complete, served.ended_s = True, self.loop.clock()
            self._slot_free()
            peer.document(200, events.whole(script, is_chat(body), answer, counts))

        self.loop.at(start_s + script.first_token_s + script.gap_s * (len(plan) - 1), write)

    def _refuse(self, peer: _Peer, served: Served, status: int, document: dict[str, Any]) -> None:
        served.status, served.ended_s = status, self.loop.clock()
        peer.document(status, document)

    def _nonsense(self, peer: _Peer, served: Served) -> None:
        served.status, served.ended_s = 0, self.loop.clock()
        if self.script.fault == "html page":
            peer.text("<html><title>Welcome</title></html>", "text/html")
        elif self.script.fault == "compressed":
            peer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b")
        else:
            peer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
            peer.close_after_writing()

    def _slot_free(self) -> None:
        self._taken -= 1
        if self._waiting:
            self._waiting.popleft()()

    def gone(self, peer: _Peer) -> None:
        """This connection is closed."""
        self._peers.discard(peer)


class _Peer:
    """One client connection."""

    def __init__(self, server: MockServer, sock: socket.socket) -> None:
        self._server, self._sock, self._loop = server, sock, server.loop
        sock.setblocking(False)
        nodelay(sock)
        self._fd = sock.fileno()
        self._in = b""
        self._out = b""
        self._closing = False
        self._open = True
        self.requests = 0
        self.stream: Stream | None = None
        self._loop.watch(self._fd, READ, self._ready)

    def write(self, data: bytes) -> None:
        """Send what the kernel takes; the rest later."""
        if not self._open:
            return
        if self._out:
            self._out += data
            return
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self._out = data[sent:]
            self._loop.change(self._fd, READ | WRITE)

    def text(self, text: str, kind: str = "text/plain") -> None:
        """A whole answer of text."""
        self._whole(200, kind, text.encode())

    def document(self, status: int, document: dict[str, Any]) -> None:
        """A whole answer of JSON."""
        self._whole(status, "application/json", json.dumps(document).encode())

    def close_after_writing(self) -> None:
        """Close once everything was sent."""
        self._closing = True
        if not self._out:
            self.close()

    def reset(self) -> None:
        """Close with a reset."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def answered(self) -> None:
        """The request is over."""
        self.stream = None
        idle_s = self._server.script.idle_close_s
        if idle_s is not None:
            seen = self.requests
            self._loop.at(self._loop.clock() + idle_s, lambda: self._close_if_idle(seen))
        self._take()

    def close(self) -> None:
        """Close now."""
        if not self._open:
            return
        self._open = False
        self._loop.forget(self._fd)
        self._sock.close()
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.stop()
        self._server.gone(self)

    def _whole(self, status: int, kind: str, data: bytes) -> None:
        kept = self._server.script.keep_alive
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n"
        self.write(head.encode() + (b"" if kept else b"connection: close\r\n") + b"\r\n" + data)
        if kept:
            self.answered()
        else:
            self.close_after_writing()

    def _close_if_idle(self, seen: int) -> None:
        if self.requests == seen and self.stream is None:
            self.close()

    def _ready(self, mask: int) -> None:
        if mask & WRITE and self._out:
            out, self._out = self._out, b""
            self.write(out)
            if not self._out and self._open:
                self._loop.change(self._fd, READ)
                if self._closing:
                    self.close()
        if mask & ~WRITE and self._open:
            self._read()

    def _read(self) -> None:
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._in += data
        self._take()

    def _take(self) -> None:
        """Serve the request that has been read, if it is whole and the last one is over."""
        if self._in and not self._in[:1].isalpha():  # no request begins like this; a TLS greeting does
            self._in = b""
            self.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.close_after_writing()
            return
        end = self._in.find(b"\r\n\r\n")
        if end < 0 or self.stream is not None or not self._open:
            return
        head = self._in[: end + 2]
        length = _LENGTH.search(head)
        stop = end + 4 + (int(length[1]) if length else 0)
        if len(self._in) < stop:
            return
        raw, self._in = self._in[end + 4 : stop], self._in[stop:]
        self.requests += 1
        self._server.request(self, head.split(b"\r\n", 1)[0].decode("latin-1"), raw)
