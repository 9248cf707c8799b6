"""`infra-agent init`: write a commented infra-agent.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra_agent.cli.options import JsonFlag
from infra_agent.cli.output import print_json, print_lines


def init(
    engine: Annotated[
        str, typer.Option("--engine", help="transformers, command, experiment, or openai for a running server.")
    ],
    model: Annotated[str, typer.Option("--model", help="Model directory, or the name the server answers with.")] = "",
    url: Annotated[str, typer.Option("--url", help="Root URL of a running server (engine openai).")] = "",
    path: Annotated[Path, typer.Option("--path", help="File to write.")] = Path("infra-agent.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Write a stack file that loads as it is; edit it, then `infra-agent doctor`. JSON keys: path."""
    from infra_agent.stack.init import init_text, write_init

    write_init(path, init_text(engine, model, url), force)
    if as_json:
        print_json({"path": str(path)})
    else:
        print_lines([f"wrote {path}", "next: infra-agent doctor"])
    return 0
