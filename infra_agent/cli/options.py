"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, also for errors.")]
StackRef = Annotated[
    str | None,
    typer.Option("--stack", help="`demo`, or the path of an infra-agent.toml. Default: ./infra-agent.toml, else demo."),
]
RunRef = Annotated[str, typer.Argument(help="`last`, a run's id, or the beginning of one.")]
NoSandbox = Annotated[
    bool, typer.Option("--no-sandbox", help="Run engines without walls; written to ledger and report.")
]


def runs_root() -> Path:
    """Where runs are kept: INFRA_AGENT_RUNS, else ./runs."""
    return Path(os.environ.get("INFRA_AGENT_RUNS") or "runs")
