"""The HTTP side: chat completions, whole or streamed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from slow_server.generate import Generator
from slow_server.text import Text

STOP, LENGTH = "stop", "length"


def make_app(model: str, generator: Generator, text: Text) -> FastAPI:
    """The server's routes."""
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": model, "object": "model"}]}

    @app.post("/v1/chat/completions")
    async def completions(body: dict[str, Any]) -> Any:
        if body.get("model") != model:
            raise HTTPException(404, f"the model is {model}")
        prompt = text.encode(body["messages"])
        limit = int(body.get("max_tokens") or 16)
        pieces = _pieces(generator, text, prompt, limit)
        if body.get("stream"):
            asked = (body.get("stream_options") or {}).get("include_usage", False)
            return StreamingResponse(_events(model, pieces, len(prompt), asked), media_type="text/event-stream")
        said = [piece async for piece in pieces]
        message = {"role": "assistant", "content": "".join(piece for piece, _ in said)}
        choice = {"index": 0, "message": message, "finish_reason": said[-1][1] if said else STOP}
        return {**_head(model, "chat.completion"), "choices": [choice], "usage": _usage(len(prompt), len(said) - 1)}

    return app


async def _pieces(
    generator: Generator, text: Text, prompt: list[int], limit: int
) -> AsyncIterator[tuple[str, str | None]]:
    """Pieces of the answer as they come; the last one is empty and says why it ended."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[int | None] = asyncio.Queue()

    def work() -> None:
        for token in generator.tokens(prompt, limit):
            loop.call_soon_threadsafe(queue.put_nowait, token)
        loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=work, daemon=True).start()
    ids: list[int] = []
    shown = ""
    while (token := await queue.get()) is not None:
        ids.append(token)
        whole = text.decode(ids)
        yield whole[len(shown) :], None
        shown = whole
    yield "", LENGTH if len(ids) == limit else STOP


async def _events(
    model: str, pieces: AsyncIterator[tuple[str, str | None]], prompt_tokens: int, asked: bool
) -> AsyncIterator[str]:
    """The pieces as server-sent events."""
    head = _head(model, "chat.completion.chunk")
    yield _event({**head, "choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]})
    count = -1
    async for piece, finish in pieces:
        count += 1
        delta = {"content": piece} if finish is None else {}
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    if asked:
        yield _event({**head, "choices": [], "usage": _usage(prompt_tokens, count)})
    yield "data: [DONE]\n\n"


def _head(model: str, kind: str) -> dict[str, Any]:
    return {"id": "slow", "object": kind, "created": 0, "model": model}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _event(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document)}\n\n"
