"""What is sent: URLs, request bodies and whole HTTP requests, built before the window so that none is built inside it.

Covered: chat and text completions, nonces against prefix caches, warm-up prompts, the head around a body.
Not covered: multimodal content.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from probes.load.types import LoadRequest, Message, Prompt

NONCE_CHARS = 6


def server_root(base_url: str) -> str:
    """The server's root URL: no trailing slash, no `/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")


def endpoint_url(request: LoadRequest) -> str:
    """The URL that requests are posted to."""
    path = "chat/completions" if request.endpoint == "chat" else "completions"
    return f"{server_root(request.base_url)}/v1/{path}"


def measured_body(request: LoadRequest, number: int) -> bytes:
    """Body of one measured request.

    The nonce is one per round through the prompts: what prompts share within a round stays shared, as in the user's
    own traffic, while repeated rounds and repeated windows share nothing. A prompt of known length has its own mark.
    """
    return _encode(request, request.prompt(number), contents(request, number))


def contents(request: LoadRequest, number: int) -> list[str]:
    """What the messages of one measured request say."""
    prompt, turn = request.prompt(number), number // len(request.prompts)
    marked = request.nonce and prompt.tokens is None
    return _marked(request, prompt, f"round {turn}" if marked else "")


def measured_bodies(request: LoadRequest) -> tuple[bytes, ...]:
    """Bodies of the measured requests in order."""
    return tuple(measured_body(request, number) for number in range(request.requests))


def warmup_bodies(request: LoadRequest) -> Iterator[bytes]:
    """Bodies for warm-up, without end: as long as measured prompts, but with reversed words and a mark of their own."""
    for number in itertools.count():
        (said,) = warmup_contents(request, 1, number)
        yield _encode(request, request.prompt(number), said)


def warmup_contents(request: LoadRequest, count: int, start: int = 0) -> list[list[str]]:
    """What the messages of `count` warm-up requests say."""
    return [
        _marked(request, _reversed(request.prompt(number)), f"warm-up {number}")
        for number in range(start, start + count)
    ]


def effective_body(request: LoadRequest) -> dict[str, Any]:
    """The first measured body without its prompt, for the record."""
    body: dict[str, Any] = json.loads(measured_body(request, 0))
    return {key: value for key, value in body.items() if key not in ("messages", "prompt")}


def post(request: LoadRequest, body: bytes) -> bytes:
    """The whole request of one answer."""
    return _http(endpoint_url(request), request.headers, "POST", body)


def get(request: LoadRequest, path: str) -> bytes:
    """The whole request of one of the server's own pages, such as `/health`."""
    return _http(server_root(request.base_url) + path, request.headers, "GET", None)


def page(request: LoadRequest, path: str, body: bytes) -> bytes:
    """The whole request that posts to another page of the server."""
    return _http(server_root(request.base_url) + path, request.headers, "POST", body)


def _http(url: str, headers: Mapping[str, str], method: str, body: bytes | None) -> bytes:
    parts = urlsplit(url)
    lines = [f"{method} {parts.path or '/'} HTTP/1.1", f"host: {parts.netloc}", "accept: */*"]
    lines += ["accept-encoding: identity", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def nonce(seed: int, label: str) -> str:
    """A short mark that depends on the seed and the label alone."""
    return hashlib.sha256(f"{seed} {label}".encode()).hexdigest()[:NONCE_CHARS]


def _reversed(prompt: Prompt) -> Prompt:
    turned = tuple(Message(m.role, " ".join(reversed(m.content.split()))) for m in prompt.messages)
    return Prompt(turned, max_tokens=prompt.max_tokens)


def _marked(request: LoadRequest, prompt: Prompt, mark: str) -> list[str]:
    first, *others = (message.content for message in prompt.messages)
    return [f"[{nonce(request.seed, mark)}] {first}" if mark else first, *others]


def _encode(request: LoadRequest, prompt: Prompt, contents: list[str]) -> bytes:
    body: dict[str, Any] = {"model": request.model, "max_tokens": prompt.max_tokens or request.max_tokens}
    if request.endpoint == "chat":
        turns = zip(prompt.messages, contents, strict=True)
        body["messages"] = [{"role": message.role, "content": content} for message, content in turns]
    else:
        body["prompt"] = contents[0]
    body["temperature"] = request.temperature
    if request.temperature > 0:
        body["seed"] = request.seed
    body["stream"] = request.stream
    if request.stream:
        usage = {"include_usage": True}
        body["stream_options"] = usage | ({"continuous_usage_stats": True} if request.per_chunk_usage else {})
    return json.dumps(body | dict(request.extra_body), ensure_ascii=False).encode()
