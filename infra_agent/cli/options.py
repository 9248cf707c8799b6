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


Model = Annotated[
    str | None, typer.Option("--model", help="Model that the brain asks; else OPENAI_MODEL, or the only one listed.")
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="OpenAI-compatible endpoint of the model; else OPENAI_BASE_URL.")
]
LlmTimeout = Annotated[
    str | None, typer.Option("--llm-timeout", help="Longest wait for one answer, e.g. 90s, 2h. Default 10m.")
]
LlmWindow = Annotated[
    int | None, typer.Option("--llm-window", min=1024, help="Context of the model in tokens, if it is not listed.")
]
Headers = Annotated[
    list[str] | None, typer.Option("--header", help="Extra header of the model's endpoint, NAME=VALUE; repeatable.")
]


def runs_root() -> Path:
    """Where runs are kept: INFRA_AGENT_RUNS, else ./runs."""
    return Path(os.environ.get("INFRA_AGENT_RUNS") or "runs")
