"""Ask a running server the same questions, greedily, as many at once as the goal's load.

Covered: OpenAI-compatible chat and text completions without streaming; every prompt ends in exactly one Answer, a
failed request in one with `error`. Log-probabilities are asked for only when the caller says the engine has them.
Not covered: starting servers, streaming, judging.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from probes.base import Json
from probes.net.http import async_client
from probes.numeric.types import Answer, AnswerPrompt, Endpoint, TokenLogprob

PATHS: Mapping[Endpoint, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
MAX_ERROR_CHARS = 300


class _BadAnswer(Exception):
    """The server replied, but not with an answer."""


def collect(
    base_url: str,
    endpoint: Endpoint,
    model: str,
    prompts: Sequence[AnswerPrompt],
    *,
    max_tokens: int,
    concurrency: int,
    timeout_s: float,
    logprobs: bool = False,
    via: Path | None = None,
) -> tuple[Answer, ...]:
    """One answer per prompt, in the order of the prompts; `timeout_s` bounds each request as a whole.

    `base_url` is the root without `/v1`; `via` the socket of the connector behind which it is. Call it from a thread
    without a running event loop. Fewer prompts than `concurrency` cannot fill the load: see `prompts.filled`.
    """
    if concurrency < 1 or max_tokens < 1 or timeout_s <= 0:
        raise ValueError("concurrency and max_tokens must be at least 1, timeout_s above 0")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same id")
    body = _body(model, max_tokens, endpoint, logprobs)
    return asyncio.run(
        _collect(base_url.rstrip("/") + PATHS[endpoint], endpoint, body, prompts, concurrency, timeout_s, via)
    )


def _body(model: str, max_tokens: int, endpoint: Endpoint, logprobs: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "max_tokens": max_tokens, "temperature": 0, "stream": False}
    if logprobs:
        body["logprobs"] = True if endpoint == "chat" else 0
    return body


async def _collect(
    url: str,
    endpoint: Endpoint,
    body: Mapping[str, Json],
    prompts: Sequence[AnswerPrompt],
    concurrency: int,
    timeout_s: float,
    via: Path | None,
) -> tuple[Answer, ...]:
    gate = asyncio.Semaphore(concurrency)
    limits = httpx.Limits(max_connections=concurrency)
    async with async_client(via, limits=limits, timeout=None) as client:

        async def one(prompt: AnswerPrompt) -> Answer:
            async with gate:
                return await _ask(client, url, endpoint, body, prompt, timeout_s)

        return tuple(await asyncio.gather(*(one(prompt) for prompt in prompts)))


async def _ask(
    client: httpx.AsyncClient,
    url: str,
    endpoint: Endpoint,
    body: Mapping[str, Json],
    prompt: AnswerPrompt,
    timeout_s: float,
) -> Answer:
    question = (
        {"prompt": prompt.text}
        if endpoint == "completions"
        else {"messages": [{"role": "user", "content": prompt.text}]}
    )
    try:
        async with asyncio.timeout(timeout_s):
            response = await client.post(url, json={**body, **question})
        if response.status_code != httpx.codes.OK:
            raise _BadAnswer(f"HTTP {response.status_code}: {response.text}")
        found = _parse(response.json(), endpoint)
    except TimeoutError:
        found = {"error": f"no answer within {timeout_s:g} s"}
    except httpx.HTTPError as error:
        found = {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]}
    except (_BadAnswer, ValueError) as error:
        found = {"error": str(error)[:MAX_ERROR_CHARS]}
    return Answer(prompt_id=prompt.id, prompt=prompt.text, endpoint=endpoint, max_tokens=body["max_tokens"], **found)


def _parse(document: Json, endpoint: Endpoint) -> dict[str, Json]:
    try:
        choice = document["choices"][0]
        text = choice["message"]["content"] if endpoint == "chat" else choice["text"]
        tokens = (document.get("usage") or {}).get("completion_tokens")
        finish, model, logprobs = choice.get("finish_reason"), document.get("model"), _logprobs(choice, endpoint)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise _BadAnswer(f"not an OpenAI {endpoint} answer: {type(error).__name__} {error}") from error
    if not isinstance(text, str):
        raise _BadAnswer(f"the answer's text is {type(text).__name__}")
    return {
        "text": text,
        "finish_reason": finish if isinstance(finish, str) else None,
        "output_tokens": tokens if isinstance(tokens, int) else None,
        "model": model if isinstance(model, str) else None,
        "logprobs": logprobs,
    }


def _logprobs(choice: Mapping[str, Json], endpoint: Endpoint) -> tuple[TokenLogprob, ...] | None:
    found = choice.get("logprobs")
    if not found:
        return None
    if endpoint == "chat":
        pairs = [(entry["token"], entry["logprob"]) for entry in found.get("content") or ()]
    else:
        pairs = list(zip(found["tokens"], found["token_logprobs"], strict=True))
    return tuple(TokenLogprob(token=token, logprob=float(logprob)) for token, logprob in pairs)
