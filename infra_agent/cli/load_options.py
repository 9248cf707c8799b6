"""The options of `probe run load`, each with its help; what they mean is decided in `probes.load.options`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Option = typer.Option
_SERVER, _LOAD, _WORK, _OUT = "Server", "Load", "Work", "Results"
_NUMERIC = "Numeric (probe run numeric)"

Url = Annotated[str | None, Option("--url", help="Root URL of the server.", rich_help_panel=_SERVER)]
Model = Annotated[
    str | None, Option("--model", help="Model name; default: the one it serves.", rich_help_panel=_SERVER)
]
ExpectedModel = Annotated[
    str | None, Option("--expected-model", help="Name that answers must carry, if it differs.", rich_help_panel=_SERVER)
]
Endpoint = Annotated[str, Option("--endpoint", help="chat or completions.", rich_help_panel=_SERVER)]
KeyEnv = Annotated[
    str | None, Option("--api-key-env", help="Variable that holds the API key.", rich_help_panel=_SERVER)
]
CaFile = Annotated[Path | None, Option("--ca-file", help="Certificates to trust for https.", rich_help_panel=_SERVER)]

Concurrency = Annotated[
    str | None, Option("--concurrency", help="Closed loop of so many users; 1,2,4 is a sweep.", rich_help_panel=_LOAD)
]
Rate = Annotated[str | None, Option("--rate", help="Arrivals per second; 1,2,4 is a sweep.", rich_help_panel=_LOAD)]
Arrivals = Annotated[
    str, Option("--arrivals", help="Spacing of a rate: poisson, constant or gamma.", rich_help_panel=_LOAD)
]
Burstiness = Annotated[
    float, Option("--burstiness", help="Shape of gamma gaps: below 1 in bursts.", rich_help_panel=_LOAD)
]
Ramp = Annotated[
    str | None, Option("--ramp", help="START:END:SECONDS, perhaps with :exponential.", rich_help_panel=_LOAD)
]
Trace = Annotated[
    Path | None, Option("--trace", help="Mooncake JSONL or BurstGPT CSV, replayed.", rich_help_panel=_LOAD)
]
TraceSpeed = Annotated[float, Option("--trace-speed", help="Replay so many times as fast.", rich_help_panel=_LOAD)]
TraceBlock = Annotated[int, Option("--trace-block", help="Tokens of one hashed block.", rich_help_panel=_LOAD)]
Requests = Annotated[int | None, Option("--requests", min=1, help="Measured requests.", rich_help_panel=_LOAD)]
Duration = Annotated[
    float | None, Option("--duration", help="Seconds after which nothing new is sent.", rich_help_panel=_LOAD)
]
Warmup = Annotated[int, Option("--warmup", min=0, help="Requests sent first and left out.", rich_help_panel=_LOAD)]
WarmupS = Annotated[float, Option("--warmup-s", help="Warm up for at least so long.", rich_help_panel=_LOAD)]
Processes = Annotated[
    int, Option("--processes", min=1, help="Client processes that share the load.", rich_help_panel=_LOAD)
]
Timeout = Annotated[float, Option("--timeout", help="Seconds for one request.", rich_help_panel=_LOAD)]
TimeLimit = Annotated[float, Option("--time-limit", help="Seconds after which all is cut off.", rich_help_panel=_LOAD)]
AllowFailures = Annotated[
    int, Option("--allow-failures", min=0, help="Failures that spoil no window.", rich_help_panel=_LOAD)
]
Seed = Annotated[int, Option("--seed", min=0, help="Seed of prompts and arrivals.", rich_help_panel=_LOAD)]

Prompts = Annotated[str, Option("--prompts", help="builtin:NAME, JSONL or ShareGPT file.", rich_help_panel=_WORK)]
InputTokens = Annotated[
    str | None,
    Option("--input-tokens", help="Synthetic prompts of exactly N or LOW:HIGH tokens.", rich_help_panel=_WORK),
]
OutputTokens = Annotated[
    str | None, Option("--output-tokens", help="Tokens asked for with each of them.", rich_help_panel=_WORK)
]
PrefixTokens = Annotated[
    int, Option("--prefix-tokens", min=0, help="Tokens that a group of them shares.", rich_help_panel=_WORK)
]
PrefixGroups = Annotated[int, Option("--prefix-groups", min=1, help="Number of groups.", rich_help_panel=_WORK)]
MaxTokens = Annotated[int, Option("--max-tokens", min=1, help="Tokens per answer.", rich_help_panel=_WORK)]
IgnoreEos = Annotated[
    bool, Option("--ignore-eos", help="Answers of full length (vLLM, SGLang).", rich_help_panel=_WORK)
]
NoStream = Annotated[bool, Option("--no-stream", help="Whole answers: no token times.", rich_help_panel=_WORK)]
ChunkUsage = Annotated[
    bool, Option("--per-chunk-usage", help="Ask for token counts in every chunk.", rich_help_panel=_WORK)
]
NoNonce = Annotated[bool, Option("--no-nonce", help="Unmarked prompts: prefix caches may help.", rich_help_panel=_WORK)]
Temperature = Annotated[float, Option("--temperature", rich_help_panel=_WORK)]
SloTtft = Annotated[float | None, Option("--slo-ttft", help="Seconds.", rich_help_panel=_WORK)]
SloTpot = Annotated[float | None, Option("--slo-tpot", help="Seconds.", rich_help_panel=_WORK)]
SloE2e = Annotated[float | None, Option("--slo-e2e", help="Seconds.", rich_help_panel=_WORK)]
ExtraBody = Annotated[str, Option("--extra-body", help="JSON object merged into every request.", rich_help_panel=_WORK)]

Output = Annotated[
    Path | None, Option("--output", help="Write all, each request included, as JSON.", rich_help_panel=_OUT)
]
Html = Annotated[
    Path | None, Option("--html", help="Write a page: distributions, time lines, sweep curve.", rich_help_panel=_OUT)
]
Export = Annotated[
    list[str] | None,
    Option("--export", help="FORMAT=PATH: vllm, sglang, guidellm, aiperf, benchmark-report.", rich_help_panel=_OUT),
]
Compare = Annotated[
    tuple[Path, Path] | None,
    Option(
        "--compare", help="Judge two sets of results, of any known tool, instead of measuring.", rich_help_panel=_OUT
    ),
]
Metric = Annotated[str, Option("--metric", help="What --compare judges.", rich_help_panel=_OUT)]
Order = Annotated[
    str | None, Option("--order", help="Order of runs that carry no times, as ABBA.", rich_help_panel=_OUT)
]

Candidate = Annotated[
    str | None, Option("--candidate", help="FILE.py:NAME or MODULE:NAME to judge.", rich_help_panel=_NUMERIC)
]
Command = Annotated[
    str | None,
    Option("--command", help="Or a shell command: in/NAME.npy to out/NAME.npy.", rich_help_panel=_NUMERIC),
]
Reference = Annotated[
    str | None, Option("--reference", help="FILE.py:NAME, a numpy function.", rich_help_panel=_NUMERIC)
]
SpecFile = Annotated[Path | None, Option("--spec", help="TOML file: what goes in and out.", rich_help_panel=_NUMERIC)]
Python = Annotated[
    str | None, Option("--python", help="The candidate's interpreter, with numpy.", rich_help_panel=_NUMERIC)
]
Fresh = Annotated[bool, Option("--fresh", help="Judge anew, whatever is known.", rich_help_panel=_NUMERIC)]
