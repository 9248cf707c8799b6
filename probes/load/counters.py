"""The server's own counters of prompt tokens and of those its prefix cache saved, read before and after a window.

Gauges are no use here: a rate that is overwritten per batch says what the last batch did. Only counters are read, and
only their difference counts.
Covered: vLLM's, SGLang's and llama.cpp's names on `/metrics`, summed over their labels. Not covered: other engines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from probes.load.body import get
from probes.load.exchange import Exchange
from probes.load.types import LoadRequest
from probes.load.wire.connection import Connection
from probes.load.wire.loop import Loop
from probes.load.wire.pool import Pool

LIMIT_S = 5.0
NAMES: Mapping[str, str] = {
    "vllm:prefix_cache_queries_total": "prompt_tokens",
    "vllm:prefix_cache_hits_total": "cached_tokens",
    "sglang:prompt_tokens_total": "prompt_tokens",
    "sglang:cached_tokens_total": "cached_tokens",
    "vllm:num_preemptions_total": "preemptions",
    "llamacpp:prompt_tokens_total": "computed_prompt_tokens",
}
_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^\n]*\})?[ \t]+([0-9.eE+-]+)", re.MULTILINE)


def read_counters(loop: Loop, pool: Pool, request: LoadRequest) -> dict[str, float]:
    """Current values by our names; empty when the server has no such page."""
    page = fetch(loop, pool, get(request, "/metrics"))
    if page.body is None or page.status != HTTPStatus.OK:
        return {}
    return parse(page.body.decode("utf-8", errors="replace"))


def parse(text: str) -> dict[str, float]:
    """Known counters of a Prometheus page, summed over their labels."""
    found: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        if name in NAMES:
            found[NAMES[name]] = found.get(NAMES[name], 0.0) + float(value)
    return found


def moved(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What each counter moved by; a server that was restarted in between has moved none."""
    steps = {name: after[name] - value for name, value in before.items() if name in after}
    return steps if all(step >= 0 for step in steps.values()) else {}


@dataclass(frozen=True, slots=True)
class Page:
    """What one page said; `body` is None when it did not come, and `trouble` says why. `status` 0: no answer."""

    body: bytes | None
    status: int
    trouble: str


def fetch(loop: Loop, pool: Pool, request: bytes, limit_s: float = LIMIT_S) -> Page:
    """Ask for one page, whatever its status."""
    exchange = Exchange(0, 0.0, loop.clock(), lambda _: loop.stop(), lambda _: None)

    def write(connection: Connection) -> None:
        exchange.connection = connection
        connection.send(request, exchange)

    def refused(reason: str) -> None:
        exchange.finish(loop.clock(), ("connection failed", reason))

    limit = loop.at(loop.clock() + limit_s, loop.stop)
    pool.take(write, refused)
    if not exchange.ended:
        loop.run()
    limit.cancel()
    pool.abandon()
    if exchange.connection is not None:
        pool.give_back(exchange.connection, reusable=exchange.ended and exchange.reusable)
    if not exchange.ended:
        return Page(None, 0, f"no answer within {limit_s:g} s")
    if exchange.trouble is not None:
        return Page(None, 0, ": ".join(exchange.trouble))
    return Page(b"".join(exchange.bodies), exchange.reader.status, "")
