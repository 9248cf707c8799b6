"""Options of a load by name, as both command lines parse them, turned into an `Ask`.

Covered: every option's own form and what contradicts what. Not covered: how options are typed (the command lines do
that), and what the server has to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.load.ask import (
    Ask,
    key_headers,
    parse_counts,
    parse_numbers,
    parse_object,
    parse_ramp,
    parse_range,
    slo_of,
)

DEFAULTS: Mapping[str, Any] = {
    "url": None, "model": None, "expected_model": None, "endpoint": "chat", "concurrency": None, "rate": None,
    "arrivals": "poisson", "burstiness": 1.0, "ramp": None, "trace": None, "trace_speed": 1.0, "trace_block": 512,
    "prompts": "builtin:short-chat", "input_tokens": None, "output_tokens": None, "prefix_tokens": 0,
    "prefix_groups": 1, "requests": None, "duration": None, "warmup": 2, "warmup_s": 0.0, "max_tokens": 32,
    "ignore_eos": False, "no_stream": False, "per_chunk_usage": False, "no_nonce": False, "temperature": 0.0, "seed": 0,
    "timeout": 120.0, "time_limit": 3600.0, "slo_ttft": None, "slo_tpot": None, "slo_e2e": None, "processes": 1,
    "extra_body": "{}", "api_key_env": None, "ca_file": None, "allow_failures": 0,
}  # fmt: skip
"""Every option with what it is when nobody says it."""


def ask_of(options: Mapping[str, Any], hosts: tuple[str, ...] = ()) -> Ask:
    """The load that these options describe; what is missing has its default. ValueError says what is wrong."""
    said = {**DEFAULTS, **{name: value for name, value in options.items() if name in DEFAULTS}}
    if not said["url"]:
        raise ValueError("no server is named: give --url, or a stack file with a url")
    _check(said)
    return Ask(
        url=said["url"],
        model=said["model"],
        expected_model=said["expected_model"],
        endpoint=said["endpoint"],
        concurrency=_counts(said["concurrency"], "--concurrency"),
        rates=parse_numbers(str(said["rate"]), "--rate") if said["rate"] is not None else (),
        kind=said["arrivals"],
        burstiness=said["burstiness"],
        ramp=parse_ramp(said["ramp"]) if said["ramp"] else None,
        trace=Path(said["trace"]) if said["trace"] else None,
        trace_speed=said["trace_speed"],
        trace_block_tokens=said["trace_block"],
        prompts=said["prompts"],
        input_tokens=_range(said["input_tokens"], "--input-tokens"),
        output_tokens=_range(said["output_tokens"], "--output-tokens"),
        prefix_tokens=said["prefix_tokens"],
        prefix_groups=said["prefix_groups"],
        requests=said["requests"],
        duration_s=said["duration"],
        warmup_requests=said["warmup"],
        warmup_s=said["warmup_s"],
        max_tokens=said["max_tokens"],
        ignore_eos=said["ignore_eos"],
        stream=not said["no_stream"],
        per_chunk_usage=said["per_chunk_usage"],
        nonce=not said["no_nonce"],
        temperature=said["temperature"],
        seed=said["seed"],
        request_timeout_s=said["timeout"],
        time_limit_s=said["time_limit"],
        slo=slo_of(said["slo_ttft"], said["slo_tpot"], said["slo_e2e"]),
        processes=said["processes"],
        extra_body=parse_object(said["extra_body"], "--extra-body"),
        headers=key_headers(said["api_key_env"]),
        hosts=hosts,
        ca_file=Path(said["ca_file"]) if said["ca_file"] else None,
    )


def _check(said: Mapping[str, Any]) -> None:
    for name, known in (("arrivals", ("poisson", "constant", "gamma")), ("endpoint", ("chat", "completions"))):
        if said[name] not in known:
            raise ValueError(f"--{name} is one of {', '.join(known)}, not {said[name]!r}")
    if said["arrivals"] != "poisson" and said["rate"] is None:
        raise ValueError("--arrivals says how requests of a --rate are spaced")
    if said["burstiness"] != 1.0 and said["arrivals"] != "gamma":
        raise ValueError("--burstiness belongs to --arrivals gamma")
    if (said["prefix_tokens"] or said["output_tokens"]) and said["input_tokens"] is None:
        raise ValueError("--prefix-tokens and --output-tokens shape synthetic prompts: give --input-tokens too")
    if said["trace"] and said["input_tokens"]:
        raise ValueError("a trace has lengths of its own; --input-tokens does not go with it")
    if said["ca_file"] and not said["url"].startswith("https:"):
        raise ValueError("--ca-file belongs to an https:// url")


def _range(text: str | None, name: str) -> tuple[int, int] | None:
    return parse_range(text, name) if text else None


def _counts(value: Any, name: str) -> tuple[int, ...]:
    return parse_counts(str(value), name) if value is not None else ()
