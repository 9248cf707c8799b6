"""What every command shares: results on stdout (lines or one JSON document), narration and errors on stderr.

This module and `narrator` are the only ones that write to a terminal: foreign text is cleaned and masked here.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from infra_agent.cli.streams import masker_of, write_masked
from infra_agent.errors import InfraAgentError
from probes.clean import clean, one_line, to_json


def stdout() -> Console:
    """Results."""
    return Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    """Narration."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on stdout: as it is, but for secrets; control characters are escaped, never left out."""
    write_masked(to_json(masker_of(sys.stdout).value(document)) + "\n")


def print_lines(lines: Sequence[str]) -> None:
    """Plain result lines on stdout."""
    for line in lines:
        sys.stdout.write(clean(line) + "\n")


def print_notes(lines: Sequence[str]) -> None:
    """Plain narration on stderr."""
    for line in lines:
        stderr().print(Text(clean(line)))


def print_question(text: str) -> None:
    """A question on stderr; the answer is typed on the same line."""
    stderr().print(Text(one_line(text)), end=" ")


def print_error(error: InfraAgentError, as_json: bool) -> None:
    """The error for people on stderr, or as JSON on stdout."""
    if as_json:
        print_json({"error": error_document(error)})
    console = stderr()
    console.print(Text.assemble(("error: ", "bold red"), one_line(error.message)))
    rows = [("last lines", line) for line in error.lines[-6:]]
    rows += [("where", error.where)] if error.where else []
    rows += [("try", error.hint)] if error.hint else []
    for name, value in rows:
        console.print(Text(f"  {name:<12} {one_line(value)}"))


def print_traceback() -> None:
    """Where the present exception comes from, on stderr: for who asked for it."""
    sys.stderr.write(clean(traceback.format_exc()))


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
