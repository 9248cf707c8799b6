"""`infra-agent probe`: the probes, and the load probe run on its own."""

from __future__ import annotations

import typer

from infra_agent.cli import events, probe_kernels, trace
from infra_agent.cli import load_options as o
from infra_agent.cli.options import JsonFlag, StackRef
from infra_agent.cli.output import print_json, print_lines

app = typer.Typer(help="Probes: single measured experiments.", no_args_is_help=True)
running = typer.Typer(help="Run one probe on its own. Each takes --json.", no_args_is_help=True)
app.add_typer(running, name="run")
running.command("events")(events.events)
running.command("trace")(trace.trace)
running.command("numeric")(probe_kernels.numeric)
running.command("static")(probe_kernels.static)
running.command("redundancy")(probe_kernels.redundancy)
running.command("roofline")(probe_kernels.roofline)
PROBES = (
    (
        "load",
        "load",
        "requests on an OpenAI-compatible server: throughput, TTFT, TPOT, E2E, validity",
        "python -m probes.load",
    ),
    (
        "answers",
        "numeric",
        "greedy answers of two servers, close calls decided by a float32 oracle",
        "python -m probes.numeric.answers",
    ),
    (
        "events",
        "events",
        "what binds a running server: its metrics, its log, its processes",
        "python -m probes.events",
    ),
    (
        "trace",
        "trace",
        "where the time of a profile went: kernels, launch gaps, overlap; two profiles: what got slower",
        "python -m probes.trace.profile",
    ),
    (
        "numeric",
        "numeric",
        "one function against a float64 reference, in the sandbox, by an oracle tested with broken outputs",
        "infra-agent probe run numeric",
    ),
    (
        "static",
        "static",
        "registers, spills, shared memory, occupancy of kernels for cards that are not here",
        "python -m probes.static.triton_compile",
    ),
    (
        "redundancy",
        "micro",
        "what a kernel's programs repeat, accesses outside operands, races; under the interpreter",
        "python -m probes.micro.redundancy",
    ),
    (
        "roofline",
        "static",
        "bytes and operations of a model step against a device's limits; Amdahl's bound",
        "python -m probes.capacity.roofline",
    ),
    (
        "gil-scan",
        "static",
        "C++ bindings: native functions that wait with Python's GIL held, and Python objects used without it",
        "python -m probes.static.gil_scan",
    ),
    (
        "gil",
        "trace",
        "who holds the GIL of a running program, which thread waits for it, and what it is not",
        "python -m probes.trace.gil",
    ),
    ("overlap", "events", "how many requests decode at the same time, from the time stamps of their chunks", ""),
    ("engagement", "static", "is a changed parameter in effect in the running engine", ""),
    ("experiment", "micro", "one run of a stack that is no server: its declared metrics", ""),
    ("program", "micro", "a program of the stack's own that writes observations ([probes.NAME])", ""),
)


@app.command("list")
def list_(as_json: JsonFlag = False) -> int:
    """All probes, cheapest rung first. JSON keys: probes[{name, rung, what, alone}]."""
    order = ("static", "numeric", "micro", "trace", "events", "load")
    found = sorted(PROBES, key=lambda probe: order.index(probe[1]))
    if as_json:
        print_json({"probes": [dict(zip(("name", "rung", "what", "alone"), probe, strict=True)) for probe in found]})
    else:
        print_lines([f"{name:<12}{rung:<9}{what}" for name, rung, what, _ in found])
        print_lines(["", *(f"{alone} --help" for *_, alone in found if alone)])
    return 0


@running.command("load")
def run(
    context: typer.Context,
    url: o.Url = None, model: o.Model = None, expected_model: o.ExpectedModel = None, endpoint: o.Endpoint = "chat",
    api_key_env: o.KeyEnv = None, ca_file: o.CaFile = None, stack: StackRef = None,
    concurrency: o.Concurrency = None, rate: o.Rate = None, arrivals: o.Arrivals = "poisson",
    burstiness: o.Burstiness = 1.0, ramp: o.Ramp = None, trace: o.Trace = None, trace_speed: o.TraceSpeed = 1.0,
    trace_block: o.TraceBlock = 512, requests: o.Requests = None, duration: o.Duration = None, warmup: o.Warmup = 2,
    warmup_s: o.WarmupS = 0.0, processes: o.Processes = 1, timeout: o.Timeout = 120.0,
    time_limit: o.TimeLimit = 3600.0, allow_failures: o.AllowFailures = 0, seed: o.Seed = 0,
    prompts: o.Prompts = "builtin:short-chat", input_tokens: o.InputTokens = None,
    output_tokens: o.OutputTokens = None, prefix_tokens: o.PrefixTokens = 0, prefix_groups: o.PrefixGroups = 1,
    max_tokens: o.MaxTokens = 32, ignore_eos: o.IgnoreEos = False, no_stream: o.NoStream = False,
    per_chunk_usage: o.ChunkUsage = False, no_nonce: o.NoNonce = False, temperature: o.Temperature = 0.0,
    slo_ttft: o.SloTtft = None, slo_tpot: o.SloTpot = None, slo_e2e: o.SloE2e = None,
    extra_body: o.ExtraBody = "{}", output: o.Output = None, html: o.Html = None, export: o.Export = None,
    compare: o.Compare = None, metric: o.Metric = "output_tok_per_s", order: o.Order = None,
    as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Measure a running server, once or for each of several loads. Exit 1 when a window is not worth its numbers.

    Load goes to this machine, or to the host that the stack file names; to no other. Without any of --concurrency,
    --rate, --ramp and --trace, four users send requests. An interrupt keeps what has been answered.
    JSON keys: observation (one window) or observations (a sweep), comparison (--compare).
    """
    from infra_agent.cli import load

    if compare is not None:
        return load.judge(compare, metric, order, as_json)
    return load.measure(context.params, stack, as_json)
