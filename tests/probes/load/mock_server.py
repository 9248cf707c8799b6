"""An OpenAI-like server with known token times and a menu of faults, over real HTTP on the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

WORDS = ("río ", "naïve ", "tree ", "日本 ", "stone ", "ünder ", "glass ", "moon ")


@dataclass(frozen=True, kw_only=True)
class Script:
    """What the server does with every request. `chunks` holds the tokens of each content chunk."""

    model: str = "mock"
    first_token_s: float = 0.05
    gap_s: float = 0.01
    chunks: tuple[int, ...] = (1,) * 10
    role_chunk: bool = True
    reasoning_chunks: int = 0
    usage: Literal["when asked", "with last chunk", "every chunk", "never"] = "when asked"
    usage_delay_s: float = 0.0
    finish_reason: str | None = "length"
    serial: bool = False
    fail_every: int = 0
    fault: Literal["none", "stall", "drop", "error event", "cut", "not a stream", "http 400"] = "none"
    fault_after_chunks: int = 3
    answers: Literal["by prompt", "canned", "cached by prompt"] = "by prompt"
    trickle: bool = False
    crlf: bool = False
    open_after_done: bool = False
    tokens_claimed: int | None = None

    @property
    def tokens(self) -> int:
        return self.tokens_claimed if self.tokens_claimed is not None else sum(self.chunks)


@dataclass
class Served:
    """What the server saw and did, with its own clock readings (the same clock as the client's)."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    content_times_s: list[list[float]] = field(default_factory=list)
    connections: int = 0
    on_fresh_connection: list[bool] = field(default_factory=list)


class MockServer:
    """Runs in a thread of its own until the context ends."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.served = Served()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._seen: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> MockServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._one = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.served.connections += 1
        try:
            fresh = True
            while await self._one_request(reader, writer, fresh):
                fresh = False
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fresh: bool) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        began_s = time.perf_counter()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        raw = await reader.readexactly(int(length.group(1))) if length else b""
        if head.startswith("GET"):
            await _whole(writer, 200, {"status": "ok"})
            return True
        body = json.loads(raw)
        number = len(self.served.bodies)
        self.served.bodies.append(body)
        self.served.on_fresh_connection.append(fresh)
        if self.script.fail_every and number % self.script.fail_every == 0:
            await asyncio.sleep(self.script.first_token_s)
            await _whole(writer, 503, {"error": {"message": "busy"}})
            return True
        if self.script.fault == "http 400":
            await _whole(writer, 400, {"error": {"message": "no such model"}})
            return True
        async with self._one if self.script.serial else contextlib.nullcontext():
            due_s = time.perf_counter() if self.script.serial else began_s
            return await self._answer(writer, body, due_s)

    async def _answer(self, writer: asyncio.StreamWriter, body: dict[str, Any], began_s: float) -> bool:
        script = self.script
        words, instant = self._words(body)
        if not body.get("stream") or script.fault == "not a stream":
            await _until(began_s + script.first_token_s + script.gap_s * (len(script.chunks) - 1))
            await _whole(writer, 200, self._document(body, "".join(words)))
            return True
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        if script.role_chunk:
            await self._event(writer, self._chunk(body, {"role": "assistant", "content": ""}))
        times: list[float] = []
        self.served.content_times_s.append(times)
        sent_tokens = 0
        for index, tokens in enumerate(script.chunks):
            await _until(began_s + (0 if instant else script.first_token_s + index * script.gap_s))
            if script.fault != "none" and index == script.fault_after_chunks:
                return await self._misbehave(writer)
            sent_tokens += tokens
            key = "reasoning_content" if index < script.reasoning_chunks else "content"
            last = index == len(script.chunks) - 1
            document = self._chunk(body, {key: words[index]}, script.finish_reason if last else None)
            if script.usage == "every chunk" or (script.usage == "with last chunk" and last):
                document["usage"] = {"prompt_tokens": 7, "completion_tokens": sent_tokens}
            times.append(time.perf_counter())
            await self._event(writer, document)
        if script.usage == "when asked" and (body.get("stream_options") or {}).get("include_usage"):
            await asyncio.sleep(script.usage_delay_s)
            await self._event(writer, {"choices": [], "model": script.model, "usage": self._usage()})
        await self._raw(writer, b"data: [DONE]\n\n")
        if script.open_after_done:
            await self._stop.wait()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _misbehave(self, writer: asyncio.StreamWriter) -> bool:
        if self.script.fault == "stall":
            await self._stop.wait()
        elif self.script.fault == "error event":
            await self._event(writer, {"error": {"message": "out of blocks", "code": 500}})
        if self.script.fault in ("error event", "cut"):
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        return False

    def _words(self, body: dict[str, Any]) -> tuple[list[str], bool]:
        """Text of each chunk, and whether it is played back from a cache that ignores nonces."""
        prompt = body.get("prompt") or body["messages"][-1]["content"]
        text = re.sub(r"^\[[0-9a-f]+\] ", "", prompt)
        instant = self.script.answers == "cached by prompt" and text in self._seen
        self._seen.add(text)
        start = 0 if self.script.answers == "canned" else zlib.crc32(text.encode())
        words = [WORDS[(start >> shift) % len(WORDS)] for shift in range(len(self.script.chunks))]
        return words, instant

    def _usage(self) -> dict[str, int]:
        return {"prompt_tokens": 7, "completion_tokens": self.script.tokens, "total_tokens": 7 + self.script.tokens}

    def _chunk(self, body: dict[str, Any], delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        if "prompt" in body:
            choice: dict[str, Any] = {"index": 0, "text": delta.get("content", ""), "finish_reason": finish}
        else:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "x", "model": self.script.model, "choices": [choice]}

    def _document(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": self.script.finish_reason}
        choice |= {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
        usage = {} if self.script.usage == "never" else {"usage": self._usage()}
        return {"id": "x", "model": self.script.model, "choices": [choice], **usage}

    async def _event(self, writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
        await self._raw(writer, b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n")

    async def _raw(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        data = data.replace(b"\n", b"\r\n") if self.script.crlf else data
        pieces: Iterator[bytes] = iter((data,))
        if self.script.trickle:
            pieces = (b": still here\n\n"[i : i + 1] for i in range(14))
            await self._pieces(writer, pieces)
            pieces = (data[i : i + 3] for i in range(0, len(data), 3))
        await self._pieces(writer, pieces)

    async def _pieces(self, writer: asyncio.StreamWriter, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            if self.script.trickle:
                await asyncio.sleep(0)


async def _whole(writer: asyncio.StreamWriter, status: int, document: dict[str, Any]) -> None:
    data = json.dumps(document).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()


async def _until(moment_s: float) -> None:
    await asyncio.sleep(max(0.0, moment_s - time.perf_counter()))
