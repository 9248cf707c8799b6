"""`infra-agent probe`: the probes, and the load probe run on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.options import JsonFlag
from infra_agent.cli.output import print_json, print_lines
from infra_agent.cli.run import MAX_SEED
from infra_agent.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from probes.load.types import LoadRequest

app = typer.Typer(help="Probes: single measured experiments.", no_args_is_help=True)
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
    ("overlap", "events", "how many requests decode at the same time, from the time stamps of their chunks", ""),
    ("engagement", "static", "is a changed parameter in effect in the running engine", ""),
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


@app.command("run")
def run(
    name: Annotated[str, typer.Argument(help="Name of a probe; `load` can be run alone.")],
    url: Annotated[str, typer.Option("--url", help="Root URL of the server.")],
    model: Annotated[str, typer.Option("--model", help="Model name that requests carry and answers must echo.")],
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Requests in flight.")] = 4,
    requests: Annotated[int, typer.Option("--requests", min=1, help="Measured requests.")] = 12,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens per answer.")] = 32,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of prompts and arrivals.")] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Measure a running server once. Exit 1 when the figure is withheld. JSON: the observation."""
    from infra_agent.harness.measuring import to_json
    from probes.base import Verdict, Where
    from probes.load import probe as load_probe

    if name != "load":
        raise UsageError(f"probe {name!r} does not run alone here", hint="infra-agent probe list")
    request = _request(url, model, concurrency, requests, max_tokens, seed)
    observation, _ = load_probe.run(request, where=Where(input=f"{url}, seed {seed}"))
    if as_json:
        print_json({"observation": to_json(observation)})
    else:
        print_lines([f"{observation.verdict}: {observation.summary}"])
        print_lines([f"  {q.name:<22}{q.value:.4g} {q.unit}" for q in observation.quantities])
    return int(ExitCode.OK if observation.verdict is Verdict.PASS else ExitCode.NOT_MET)


def _request(url: str, model: str, concurrency: int, requests: int, max_tokens: int, seed: int) -> LoadRequest:
    """The window that was asked for. Raises UsageError when there can be no such window."""
    from probes.load.prompts import load_prompts
    from probes.load.types import Closed, LoadRequest

    try:
        return LoadRequest(
            base_url=url,
            model=model,
            prompts=load_prompts("builtin:short-chat"),
            arrivals=Closed(concurrency),
            requests=requests,
            max_tokens=max_tokens,
            seed=seed,
            expected_model=model,
        )
    except ValueError as error:
        raise UsageError(str(error), where="probe run load", hint="for example --url http://127.0.0.1:8000") from error
