"""`infra-agent probe run events`: what binds a running server, alone or beside a load of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra_agent.cli import load_options as o
from infra_agent.cli.options import JsonFlag, StackRef
from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from probes.base import Observation
    from probes.events.signals import Signal
    from probes.events.watch import Watch

PLACE = "probe run events"
REQUEST_S = 600.0
"""A server that is bound by something may be slow: its answers are waited for."""
Seconds = Annotated[float, typer.Option(help="Length of the window; a load of its own ends it earlier.")]
Interval = Annotated[float, typer.Option(help="Seconds between two readings of /metrics.")]
Log = Annotated[Path | None, typer.Option(help="The engine's log file.")]
Load = Annotated[Path | None, typer.Option(help="Result of `probe run load --output` from the same window.")]
Offered = Annotated[int | None, typer.Option(help="Requests that the client means to keep open.")]
Limit = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=N", help="Known limit: max_running, token_budget, world_size."),
]
Engine = Annotated[str | None, typer.Option(help="vllm, sglang, llama.cpp or transformers; default: as found.")]


def events(
    url: o.Url = None, seconds: Seconds = 10.0, interval: Interval = 0.5, log: Log = None, load: Load = None,
    offered: Offered = None, limit: Limit = None, engine: Engine = None, stack: StackRef = None,
    concurrency: o.Concurrency = None, model: o.Model = None, requests: o.Requests = None,
    max_tokens: o.MaxTokens = 32, input_tokens: o.InputTokens = None, seed: o.Seed = 0, as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Name the limit that binds a running server, with the experiment that would refute it. Exit 1: cannot tell.

    Reads /metrics, the log and this machine's processes for some seconds; nothing else is sent. With --concurrency a
    load is sent meanwhile, and its client's own records count too. Only this machine and the host that the stack file
    names are asked. What the log advises is shown as a hypothesis.
    JSON keys: observation.
    """
    from probes.base import Verdict
    from probes.events.card import card

    options = {
        "url": url, "concurrency": concurrency, "model": model, "requests": requests, "max_tokens": max_tokens,
        "input_tokens": input_tokens, "seed": seed, "allow_failures": 0, "timeout": REQUEST_S,
    }  # fmt: skip
    target, host = _target(url, stack)
    what = _watch(target, host, seconds, interval, log, offered, limit, engine)
    beside = _read_load(load)
    observation = _observe(what, beside, options, stack)
    if as_json:
        from infra_agent.harness.measuring import to_json

        print_json({"observation": to_json(observation)})
    else:
        print_lines(card(observation).split("\n"))
    return int(ExitCode.OK if observation.verdict is Verdict.PASS else ExitCode.NOT_MET)


def _target(url: str | None, stack_ref: str | None) -> tuple[str, tuple[str, ...]]:
    """Where to look, and the host that the stack file allows."""
    from infra_agent.stack.files import FILE_NAME, resolve_stack
    from probes.load.hosts import host_of

    named = stack_ref is not None or Path(FILE_NAME).exists()
    stack_url = resolve_stack(stack_ref, Path.cwd())[0].url if named else None
    target = url or stack_url
    if target is None:
        raise UsageError("no server is named", where=PLACE, hint="--url http://127.0.0.1:8000")
    return target, host_of(stack_url)


def _watch(
    url: str, hosts: tuple[str, ...], seconds: float, interval: float, log: Path | None, offered: int | None,
    limit: list[str] | None, engine: str | None,
) -> Watch:  # fmt: skip
    from probes.events.vocabulary import ENGINES
    from probes.events.watch import Watch

    if engine is not None and engine not in ENGINES:
        raise UsageError(f"no engine {engine!r}; known: {', '.join(ENGINES)}", where=PLACE)
    try:
        return Watch(
            url=url, seconds=seconds, interval_s=min(interval, seconds), hosts=hosts, log=log, offered=offered,
            limits=tuple(limit or ()), engine=engine,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error), where=PLACE, hint="infra-agent probe run events --help") from error


def _read_load(path: Path | None) -> list[Signal]:
    from probes.events.client import read_load_file

    try:
        return read_load_file(path) if path is not None else []
    except ValueError as error:
        raise UsageError(str(error), where=f"{PLACE} --load", hint="probe run load --output FILE writes one") from error


def _observe(what: Watch, beside: list[Signal], options: dict[str, Any], stack_ref: str | None) -> Observation:
    from probes.events.watch import LONGEST_S, Watching, watch

    if options["concurrency"] is None:
        stderr().print(f"watching {what.url} for {what.seconds:g} s")
        return watch(what, beside)
    from infra_agent.cli.load import measured_beside, warm_up

    warm_up(options, stack_ref)
    with Watching(replace(what, seconds=LONGEST_S)) as watching:
        told = measured_beside(options, stack_ref)
        return watching.finish([*beside, *told])
