"""`infra-agent stack`: what would be tuned, and the engine's parameter table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra_agent.cli.options import JsonFlag, NoSandbox, StackRef
from infra_agent.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from infra_agent.stack.engines.base import Parameter

app = typer.Typer(help="The stack: what is tuned and what may change.", no_args_is_help=True)


@app.command("show")
def show(
    stack: StackRef = None,
    params: Annotated[bool, typer.Option("--params", help="The engine's parameter table with risk classes.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """The stack as understood. JSON keys: source, stack, and with --params: params[]."""
    from infra_agent.stack.engines import engine_of
    from infra_agent.stack.files import dump_stack, resolve_stack
    from infra_agent.stack.secrets import hidden_stack

    system, source = resolve_stack(stack, Path.cwd())
    system = hidden_stack(system)
    table = engine_of(system).parameters()
    if as_json:
        document: dict[str, Any] = {"source": source, "stack": system.model_dump(mode="json")}
        if params:
            document["params"] = [parameter_row(parameter) for parameter in table]
        print_json(document)
        return 0
    lines = [f"# {source}", dump_stack(system).rstrip()]
    if params:
        lines += ["", f"{'parameter':<28}{'risk':<16}{'family':<14}default"]
        lines += [f"{p.name:<28}{p.risk.value:<16}{p.family:<14}{_default(p)}" for p in table]
    print_lines(lines)
    return 0


@app.command("up")
def up(
    stack: StackRef = None,
    stock: Annotated[bool, typer.Option("--stock", help="The stack as its file says, no accepted change.")] = False,
    ref: Annotated[str, typer.Option("--run", help="Whose accepted changes to apply.")] = "last",
    port: Annotated[int | None, typer.Option("--port", help="Port to listen on; a free one when not given.")] = None,
    no_sandbox: NoSandbox = False,
    as_json: JsonFlag = False,
) -> int:
    """Serve in the foreground until Ctrl-C: a run's accepted changes, or --stock to be back where you began.

    Behind walls the engine has a network of its own; connections to the port are relayed to it.
    JSON keys, once it answers: url, model, settings, digest, network, and patches where there are any.
    """
    from infra_agent.cli.up import serve_until_stopped

    settings_from = None if stock else ref
    return serve_until_stopped(stack, settings_from, port, no_sandbox, as_json)


def parameter_row(parameter: Parameter) -> dict[str, Any]:
    """One parameter as JSON."""
    return {
        "name": parameter.name,
        "title": parameter.title,
        "flag": parameter.flag,
        "type": parameter.type,
        "default": parameter.default,
        "choices": list(parameter.choices),
        "low": parameter.low,
        "high": parameter.high,
        "risk": parameter.risk.value,
        "family": parameter.family,
        "evidence": parameter.evidence,
        "proof": parameter.engagement.signal if parameter.engagement else "any difference in effective state",
    }


def _default(parameter: Parameter) -> str:
    return "engine's own" if parameter.default is None else str(parameter.default)
