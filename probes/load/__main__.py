"""`python -m probes.load`: measure a running server from the command line.

Exit codes: 0 the window is valid, 1 it is not, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from probes.base import Verdict, Where
from probes.clean import clean, one_line
from probes.load.card import card, document
from probes.load.probe import run
from probes.load.prompts import load_prompts
from probes.load.types import Arrivals, Closed, LoadRequest, Poisson, Slo


def main(argv: Sequence[str] | None = None) -> int:
    """Run one window; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        request = _request(options)
    except ValueError as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    planned = f"measuring {request.base_url}: {request.warmup_requests} warm-up, {request.requests} requests"
    sys.stderr.write(one_line(planned) + "\n")
    try:
        observation, result = run(request, where=Where(whole_system=True))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was measured\n")
        return 130
    sys.stdout.write(clean(card(observation, result)) + "\n")
    if options.json:
        sys.stdout.write(document(observation) + "\n")
    return 0 if observation.verdict is Verdict.PASS else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m probes.load", description="Exact load on an OpenAI-like server")
    add = parser.add_argument
    add("--url", required=True, help="root of the server, such as http://127.0.0.1:8000")
    add("--model", required=True, help="model name to ask for; answers must carry it")
    add("--expected-model", help="name that answers must carry, if it differs")
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--concurrency", type=int, help="closed loop with this many users")
    load.add_argument("--rate", type=float, help="Poisson arrivals per second")
    add("--requests", type=int, default=16)
    add("--warmup", type=int, default=4)
    add("--max-tokens", type=int, default=64)
    add("--prompts", default="builtin:short-chat", help="builtin:short-chat, builtin:answers, JSONL or ShareGPT file")
    add("--endpoint", choices=("chat", "completions"), default="chat")
    add("--no-stream", action="store_true", help="whole answers: no TTFT, TPOT or overlap")
    add("--per-chunk-usage", action="store_true", help="ask for token counts in every chunk")
    add("--no-nonce", action="store_true", help="send prompts unmarked: prefix caches may help")
    add("--temperature", type=float, default=0.0)
    add("--seed", type=int, default=0)
    add("--timeout", type=float, default=120.0, help="seconds for one request")
    add("--slo-ttft", type=float, help="seconds")
    add("--slo-tpot", type=float, help="seconds")
    add("--slo-e2e", type=float, help="seconds")
    add("--extra-body", default="{}", help="JSON object merged into every request")
    add("--api-key-env", help="environment variable that holds the API key")
    add("--json", action="store_true", help="end with one line of JSON")
    return parser


def _request(options: argparse.Namespace) -> LoadRequest:
    arrivals: Arrivals = Poisson(options.rate) if options.concurrency is None else Closed(options.concurrency)
    limits = {"ttft_s": options.slo_ttft, "tpot_s": options.slo_tpot, "e2e_s": options.slo_e2e}
    return LoadRequest(
        base_url=options.url,
        model=options.model,
        expected_model=options.expected_model,
        prompts=load_prompts(options.prompts),
        arrivals=arrivals,
        requests=options.requests,
        warmup_requests=options.warmup,
        max_tokens=options.max_tokens,
        endpoint=options.endpoint,
        stream=not options.no_stream,
        per_chunk_usage=options.per_chunk_usage,
        nonce=not options.no_nonce,
        temperature=options.temperature,
        seed=options.seed,
        request_timeout_s=options.timeout,
        slo=Slo(**limits) if any(limit is not None for limit in limits.values()) else None,
        extra_body=_object(options.extra_body),
        headers=_headers(options.api_key_env),
    )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--extra-body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("--extra-body must be a JSON object")
    return value


def _headers(variable: str | None) -> dict[str, str]:
    if variable is None:
        return {}
    if not (key := os.environ.get(variable)):
        raise ValueError(f"the environment variable {variable} is not set")
    return {"authorization": f"Bearer {key}"}


if __name__ == "__main__":
    sys.exit(main())
