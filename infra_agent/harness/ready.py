"""Is a server ready? Health answers 200, and one short request is answered for the right model.

Covered: death, hang, refusals, dropped connections and a wrong model, each told apart; lazily loading engines, whose
first request belongs to their start-up time; an answer that trickles in without end.
Not covered: engines that need a key to be talked to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from infra_agent.harness.deadline import within
from infra_agent.harness.identity import expected_models, is_expected
from infra_agent.harness.launch_errors import LaunchFailed, Outcome, WrongModel
from infra_agent.stack.engines.base import Engine
from infra_agent.stack.model import Stack
from probes.net.http import sync_client

_POLL_S = 0.05
_FIRST_POLL_S = 0.01
_QUICK_S = 1.0
"""Engines that start within a second are looked at more often: their start-up time is read off the polls."""
_HEALTH_TIMEOUT_S = 5.0
_PROMPT = "Say hello."
_MAX_TOKENS = 4
_DROPS_ALLOWED = 2
Fail = Callable[[Outcome, str], LaunchFailed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Seconds from the start to the first good health answer and to the first answered request."""

    health_s: float
    ready_s: float
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyCheck:
    """Everything needed to wait for one server. `alive` tells a dead process from a slow one.

    `via`: the socket of the connector behind which the server is; None for plain TCP.
    """

    base_url: str
    engine: Engine
    stack: Stack
    alive: Callable[[], bool]
    fail: Fail
    clock: Callable[[], float]
    started_at: float
    via: Path | None = None

    def wait(self) -> Readiness:
        """Raises LaunchFailed (died, hung, unhealthy) or WrongModel."""
        with sync_client(self.via, base_url=self.base_url) as client:
            self._until_healthy(client)
            health_s = self.clock() - self.started_at
            model = self._until_answered(client)
        return Readiness(health_s=health_s, ready_s=self.clock() - self.started_at, model=model)

    def _pause(self) -> None:
        time.sleep(_FIRST_POLL_S if self.clock() - self.started_at < _QUICK_S else _POLL_S)

    def _left_s(self) -> float:
        return self.started_at + self.stack.limits.start_timeout_s - self.clock()

    def _until_healthy(self, client: httpx.Client) -> None:
        last_status: int | None = None
        while True:
            self._require_alive()
            try:
                timeout_s = max(_POLL_S, min(_HEALTH_TIMEOUT_S, self._left_s()))
                last_status = within(timeout_s, partial(self._health, client, timeout_s)).status_code
                if last_status == httpx.codes.OK:
                    return
            except (httpx.TransportError, TimeoutError):
                pass
            if self._left_s() <= 0:
                limit_s = self.stack.limits.start_timeout_s
                if last_status is None:
                    raise self.fail("hung", f"no answer from {self.engine.health_path} within {limit_s:g} s")
                raise self.fail(
                    "unhealthy", f"{self.engine.health_path} still answers {last_status} after {limit_s:g} s"
                )
            self._pause()

    def _health(self, client: httpx.Client, timeout_s: float) -> httpx.Response:
        return client.get(self.engine.health_path, timeout=timeout_s)

    def _until_answered(self, client: httpx.Client) -> str:
        drops = 0
        while True:
            self._require_alive()
            if self._left_s() <= 0:
                raise self._no_answer()
            try:
                response = within(max(_POLL_S, self._left_s()), partial(self._request, client))
            except (httpx.TimeoutException, TimeoutError):
                raise self._no_answer() from None
            except httpx.TransportError as error:
                drops += 1
                if drops > _DROPS_ALLOWED:
                    self._require_alive()
                    text = f"it is healthy but drops the first request ({type(error).__name__})"
                    raise self.fail("unhealthy", text) from error
            else:
                if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    return self._check(response)
            self._pause()

    def _request(self, client: httpx.Client) -> httpx.Response:
        body: dict[str, Any] = {
            "model": self.engine.model_in_request(self.stack),
            "max_tokens": _MAX_TOKENS,
            "temperature": 0,
            "stream": False,
        }
        if self.stack.workload.endpoint == "chat":
            body["messages"] = [{"role": "user", "content": _PROMPT}]
            return client.post("/v1/chat/completions", json=body, timeout=max(_POLL_S, self._left_s()))
        body["prompt"] = _PROMPT
        return client.post("/v1/completions", json=body, timeout=max(_POLL_S, self._left_s()))

    def _check(self, response: httpx.Response) -> str:
        expected = expected_models(self.engine, self.stack)
        if response.status_code != httpx.codes.OK:
            raise self._refused(response, expected)
        try:
            document = response.json()
        except ValueError:
            document = None
        answered = document.get("model") if isinstance(document, dict) else None
        if not isinstance(answered, str) or not document.get("choices"):
            raise self.fail("unhealthy", "its first answer is not an OpenAI completion")
        if not is_expected(answered, expected):
            raise WrongModel(
                f"the server answers for {answered!r}, asked was {' or '.join(map(repr, expected))}",
                where=self.base_url,
                hint="check `model` and `served_model` in the stack file",
            )
        return answered

    def _refused(self, response: httpx.Response, expected: tuple[str, ...]) -> LaunchFailed | WrongModel:
        said = " ".join(response.text.split())[:200]
        if response.status_code in (400, 404) and any(name in said for name in expected):
            return WrongModel(
                f"the server does not serve {expected[0]!r}: {said}",
                where=self.base_url,
                hint="check `model` and `served_model` in the stack file",
            )
        return self.fail("unhealthy", f"its first request was answered with {response.status_code}: {said}")

    def _no_answer(self) -> LaunchFailed:
        limit_s = self.stack.limits.start_timeout_s
        return self.fail("hung", f"it is healthy, but its first request had no answer within {limit_s:g} s")

    def _require_alive(self) -> None:
        if not self.alive():
            raise self.fail("died", "it ended before it was ready")
