"""What every command shares: results on stdout (lines or one JSON document), narration and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from infra_agent.errors import InfraAgentError

UNSAFE = {
    code: None
    for code in (*range(9), *range(11, 32), 127, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def clean(text: str) -> str:
    """Text without control and direction-changing characters: engine output never steers a terminal."""
    return text.translate(UNSAFE)


def stdout() -> Console:
    """Results."""
    return Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    """Narration."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def print_lines(lines: Sequence[str]) -> None:
    """Plain result lines on stdout."""
    for line in lines:
        sys.stdout.write(clean(line) + "\n")


def print_error(error: InfraAgentError, as_json: bool) -> None:
    """The error for people on stderr, or as JSON on stdout."""
    if as_json:
        print_json({"error": error_document(error)})
    console = stderr()
    console.print(Text.assemble(("error: ", "bold red"), clean(error.message)))
    rows = [("last lines", line) for line in error.lines[-6:]]
    rows += [("where", error.where)] if error.where else []
    rows += [("try", error.hint)] if error.hint else []
    for name, value in rows:
        console.print(Text(f"  {name:<12} {clean(value)}"))


def error_document(error: InfraAgentError) -> dict[str, Any]:
    """An error as JSON."""
    return {
        "kind": error.kind,
        "message": error.message,
        "where": error.where,
        "hint": error.hint,
        "lines": list(error.lines),
        "exit_code": int(error.exit_code),
    }
