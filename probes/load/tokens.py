"""How many tokens the server makes of a prompt: asked of the server itself, never guessed by another tokenizer.

The count that matters is the one in `usage`. Where the server has a `/tokenize` page that agrees with it, that page is
asked, because it is cheap; else each count costs one answer of one token.
Covered: vLLM's and SGLang's page, any server that sends usage. Not covered: servers that count nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from probes.load.body import get, page
from probes.load.client import Client
from probes.load.counters import fetch
from probes.load.types import LoadRequest, Message, Prompt

Count = Callable[[Prompt], int]
TRIAL = Prompt((Message("user", "above the hill and across the field"),))


class ServerTokens:
    """Counts prompts on a running server. Raises ValueError when the server cannot count."""

    def __init__(self, client: Client, request: LoadRequest) -> None:
        self._client, self._request = client, request
        self.calls = 0
        by_usage = self._by_usage(TRIAL)
        self.by_page = self._by_page(TRIAL) == by_usage

    def __call__(self, prompt: Prompt) -> int:
        """Prompt tokens, the chat template's included."""
        if self.by_page and (count := self._by_page(prompt)) is not None:
            return count
        return self._by_usage(prompt)

    def _by_page(self, prompt: Prompt) -> int | None:
        document = self._ask("/tokenize", {"model": self._request.model, **self._said(prompt)})
        count = document.get("count")
        return count if isinstance(count, int) else None

    def _by_usage(self, prompt: Prompt) -> int:
        request = self._request
        path = "/v1/chat/completions" if request.endpoint == "chat" else "/v1/completions"
        body = {"model": request.model, "max_tokens": 1, "temperature": 0, **self._said(prompt)}
        document = self._ask(path, body | dict(request.extra_body) | {"stream": False, "max_tokens": 1})
        usage = document.get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not isinstance(count, int):
            raise ValueError(
                "prompts of an exact length need a server that counts tokens: "
                f"neither /tokenize nor an answer's usage gave a count ({_reason(document)})"
            )
        return count

    def _said(self, prompt: Prompt) -> dict[str, Any]:
        if self._request.endpoint == "completions":
            return {"prompt": prompt.messages[0].content}
        return {"messages": [{"role": message.role, "content": message.content} for message in prompt.messages]}

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        request = self._request
        data = page(request, path, json.dumps(body, ensure_ascii=False).encode())
        answer = fetch(self._client.loop, self._client.pool, data, request.request_timeout_s)
        try:
            document = json.loads(answer.body or b"")
        except ValueError:
            return {"message": answer.trouble or f"HTTP {answer.status}"}
        return document if isinstance(document, dict) else {}


def served_model(client: Client, request: LoadRequest) -> str:
    """The name of the one model that the server says it serves. ValueError when it does not say."""
    answer = fetch(client.loop, client.pool, get(request, "/v1/models"))
    if answer.body is None:
        raise ValueError(f"{request.base_url} cannot be asked for its model: {answer.trouble}")
    try:
        names = [row["id"] for row in json.loads(answer.body)["data"]]
    except (ValueError, KeyError, TypeError):
        names = []
    if answer.status != HTTPStatus.OK or len(names) != 1 or not isinstance(names[0], str):
        told = ", ".join(str(name) for name in names[:5]) or f"HTTP {answer.status}"
        raise ValueError(f"{request.base_url} does not name one model (/v1/models: {told}); name it with --model")
    return names[0]


def _reason(document: dict[str, Any]) -> str:
    error = document.get("error") or document.get("message")
    return " ".join(str(error).split())[:120] if error else "no usable answer"
