"""From what a user asks for to complete windows: arrivals, prompts, bounds.

Both command lines fill in an `Ask`; several rates or user counts become several windows, each with a seed of its own so
that nothing cached from one helps the next. Covered: files, built-in sets, synthetic prompts, traces, sweeps, the
model's name asked of the server. Not covered: sending anything but the questions that this needs.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from probes.load.arrivals import Arrivals, Closed, Constant, Gamma, Poisson, Ramp
from probes.load.client import Client
from probes.load.prompts import load_prompts
from probes.load.synthetic import Range, Shape, Vocabulary, find_vocabulary, make_prompts, verify
from probes.load.tokens import ServerTokens, served_model
from probes.load.traces import Row, arrivals_of, prompts_of, read_trace
from probes.load.types import Endpoint, LoadRequest, Prompt, Slo
from probes.load.wire.dial import Connect

Kind = Literal["poisson", "constant", "gamma"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The options of a load. Exactly one of `concurrency`, `rates`, `ramp` and `trace` says how requests arrive."""

    url: str
    model: str | None = None
    expected_model: str | None = None
    endpoint: Endpoint = "chat"
    concurrency: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    kind: Kind = "poisson"
    burstiness: float = 1.0
    ramp: Ramp | None = None
    trace: Path | None = None
    trace_speed: float = 1.0
    trace_block_tokens: int = 512
    prompts: str = "builtin:short-chat"
    input_tokens: Range | None = None
    output_tokens: Range | None = None
    prefix_tokens: int = 0
    prefix_groups: int = 1
    requests: int | None = None
    duration_s: float | None = None
    warmup_requests: int = 2
    warmup_s: float = 0.0
    max_tokens: int = 32
    ignore_eos: bool = False
    stream: bool = True
    per_chunk_usage: bool = False
    nonce: bool = True
    temperature: float = 0.0
    seed: int = 0
    request_timeout_s: float = 120.0
    time_limit_s: float = 3600.0
    slo: Slo | None = None
    processes: int = 1
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    hosts: tuple[str, ...] = ()
    ca_file: Path | None = None
    via: Path | None = None


def windows(ask: Ask, connect: Connect | None = None) -> tuple[LoadRequest, ...]:
    """The windows that were asked for, in order. ValueError says what is wrong, or what the server would not tell."""
    rows = read_trace(ask.trace, ask.requests) if ask.trace is not None else ()
    loads = _arrivals(ask, rows)
    requests = tuple(
        _request(dataclasses.replace(ask, seed=ask.seed + number), arrivals) for number, arrivals in enumerate(loads)
    )
    synthetic = ask.input_tokens is not None or bool(rows)
    if not synthetic and ask.model is not None:
        return requests
    with Client(dataclasses.replace(requests[0], processes=1), connect) as client:
        model = ask.model or served_model(client, requests[0])
        named = tuple(dataclasses.replace(request, model=model) for request in requests)
        if not synthetic:
            return named
        count = ServerTokens(client, named[0])
        vocabulary = find_vocabulary(count)
        made = tuple(
            dataclasses.replace(request, prompts=_synthetic(ask, rows, vocabulary, request)) for request in named
        )
        verify(made[0].prompts, count)
        return made


def _arrivals(ask: Ask, rows: tuple[Row, ...]) -> tuple[Arrivals, ...]:
    ways = [bool(ask.concurrency), bool(ask.rates), ask.ramp is not None, bool(rows)]
    if sum(ways) != 1:
        raise ValueError(
            "say how requests arrive: by concurrency, by rate, by a ramp or by a trace; exactly one of them"
        )
    if ask.ramp is not None:
        return (ask.ramp,)
    if rows:
        assert ask.trace is not None
        return (arrivals_of(rows, ask.trace.name, ask.trace_speed),)
    if ask.concurrency:
        return tuple(Closed(users) for users in ask.concurrency)
    return tuple(_open(ask, rate) for rate in ask.rates)


def _open(ask: Ask, rate: float) -> Arrivals:
    if ask.kind == "constant":
        return Constant(rate)
    if ask.kind == "gamma":
        return Gamma(rate, ask.burstiness)
    if ask.burstiness != 1.0:
        raise ValueError("burstiness belongs to gamma arrivals")
    return Poisson(rate)


def _request(ask: Ask, arrivals: Arrivals) -> LoadRequest:
    extra = {**({"ignore_eos": True} if ask.ignore_eos else {}), **ask.extra_body}
    top = ask.output_tokens[1] if ask.output_tokens else ask.max_tokens
    prompts = (Prompt.of("-"),) if ask.trace or ask.input_tokens else load_prompts(ask.prompts)
    return LoadRequest(
        base_url=ask.url,
        model=ask.model or "-",
        expected_model=ask.expected_model,
        prompts=prompts,
        arrivals=arrivals,
        requests=_count(ask, arrivals),
        max_tokens=top,
        endpoint=ask.endpoint,
        warmup_requests=ask.warmup_requests,
        warmup_s=ask.warmup_s,
        stream=ask.stream,
        temperature=ask.temperature,
        seed=ask.seed,
        nonce=ask.nonce,
        request_timeout_s=ask.request_timeout_s,
        duration_s=ask.duration_s,
        time_limit_s=ask.time_limit_s,
        per_chunk_usage=ask.per_chunk_usage,
        slo=ask.slo,
        processes=ask.processes,
        via=ask.via,
        hosts=ask.hosts,
        ca_file=ask.ca_file,
        extra_body=extra,
        headers=ask.headers,
    )


def _count(ask: Ask, arrivals: Arrivals) -> int:
    """How many requests: as asked, else what the duration has room for, else three rounds or a dozen."""
    if not isinstance(arrivals, Closed | Constant | Poisson | Gamma | Ramp):
        return len(arrivals.times_s)
    if ask.requests is not None:
        return ask.requests
    if ask.duration_s is None:
        return max(12, 3 * arrivals.concurrency if isinstance(arrivals, Closed) else 0)
    if isinstance(arrivals, Closed):
        return max(5000, 500 * arrivals.concurrency)
    top = max(arrivals.start_per_s, arrivals.end_per_s) if isinstance(arrivals, Ramp) else arrivals.rate_per_s
    return max(ask.processes, int(1.5 * top * ask.duration_s) + 20)


def _synthetic(ask: Ask, rows: tuple[Row, ...], vocabulary: Vocabulary, request: LoadRequest) -> tuple[Prompt, ...]:
    if rows:
        return prompts_of(rows, vocabulary, request.seed, ask.trace_block_tokens)
    assert ask.input_tokens is not None
    shape = Shape(
        input_tokens=ask.input_tokens,
        output_tokens=ask.output_tokens,
        prefix_tokens=ask.prefix_tokens,
        groups=ask.prefix_groups,
    )
    return make_prompts(vocabulary, shape, request.requests, request.seed)


def parse_range(text: str, name: str) -> Range:
    """`512` or `256:1024`."""
    low, _, high = text.partition(":")
    try:
        return int(low), int(high or low)
    except ValueError as error:
        raise ValueError(f"{name} is a number or LOW:HIGH, not {text!r}") from error


def parse_ramp(text: str) -> Ramp:
    """`2:16:60`, or `2:16:60:exponential`."""
    start, end, over, *shape = (*text.split(":"), "", "")[: max(4, text.count(":") + 1)]
    kind = shape[0] if shape and shape[0] else "linear"
    if kind not in ("linear", "exponential") or text.count(":") not in (2, 3):
        raise ValueError(f"a ramp is START:END:SECONDS, perhaps with :exponential, not {text!r}")
    try:
        return Ramp(float(start), float(end), float(over), "exponential" if kind == "exponential" else "linear")
    except ValueError as error:
        raise ValueError(f"ramp {text!r}: {error}") from error


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """`4` or `1,2,4,8`."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"{name} is a number or a list such as 1,2,4, not {text!r}") from error


def parse_counts(text: str, name: str) -> tuple[int, ...]:
    """The same for whole numbers."""
    numbers = parse_numbers(text, name)
    if any(number != int(number) for number in numbers):
        raise ValueError(f"{name} is a whole number, not {text!r}")
    return tuple(int(number) for number in numbers)


def parse_object(text: str, name: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object")
    return value


def key_headers(variable: str | None) -> dict[str, str]:
    """The header that carries the API key kept in an environment variable."""
    if variable is None:
        return {}
    if not (key := os.environ.get(variable)):
        raise ValueError(f"the environment variable {variable} is not set")
    return {"authorization": f"Bearer {key}"}


def slo_of(ttft_s: float | None, tpot_s: float | None, e2e_s: float | None) -> Slo | None:
    """The limits, if there are any."""
    if ttft_s is tpot_s is e2e_s is None:
        return None
    return Slo(ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s)
