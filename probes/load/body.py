"""What is sent: URLs and request bodies, built before the window so that no encoding happens inside it.

Covered: chat and text completions, nonces against prefix caches, warm-up prompts.
Not covered: multimodal content.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from probes.load.types import LoadRequest, Message, Prompt

NONCE_CHARS = 6


def server_root(base_url: str) -> str:
    """The server's root URL: no trailing slash, no `/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")


def endpoint_url(request: LoadRequest) -> str:
    """The URL that requests are posted to."""
    path = "chat/completions" if request.endpoint == "chat" else "completions"
    return f"{server_root(request.base_url)}/v1/{path}"


def measured_bodies(request: LoadRequest) -> tuple[bytes, ...]:
    """Bodies of the measured requests in order: the prompts in file order, from the start again when they run out.

    The nonce is one per round through the prompts: what prompts share within a round stays shared, as in the user's
    own traffic, while repeated rounds and repeated windows share nothing.
    """
    prompts = request.prompts
    return tuple(
        _encode(request, prompts[number % len(prompts)], f"round {number // len(prompts)}" if request.nonce else "")
        for number in range(request.requests)
    )


def warmup_bodies(request: LoadRequest) -> tuple[bytes, ...]:
    """Bodies of the warm-up: as long as measured prompts, but with the words reversed and a mark of their own."""
    prompts = request.prompts
    return tuple(
        _encode(request, _reversed(prompts[number % len(prompts)]), f"warm-up {number}")
        for number in range(request.warmup_requests)
    )


def effective_body(request: LoadRequest) -> dict[str, Any]:
    """The first measured body without its prompt, for the record."""
    body: dict[str, Any] = json.loads(measured_bodies(request)[0])
    return {key: value for key, value in body.items() if key not in ("messages", "prompt")}


def nonce(seed: int, label: str) -> str:
    """A short mark that depends on the seed and the label alone."""
    return hashlib.sha256(f"{seed} {label}".encode()).hexdigest()[:NONCE_CHARS]


def _reversed(prompt: Prompt) -> Prompt:
    return Prompt(tuple(Message(m.role, " ".join(reversed(m.content.split()))) for m in prompt.messages))


def _encode(request: LoadRequest, prompt: Prompt, mark: str) -> bytes:
    prefix = f"[{nonce(request.seed, mark)}] " if mark else ""
    contents = [message.content for message in prompt.messages]
    contents[0] = prefix + contents[0]
    body: dict[str, Any] = {"model": request.model, "max_tokens": request.max_tokens}
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
