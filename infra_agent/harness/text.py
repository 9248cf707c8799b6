"""Lines of an engine's output made safe to show: progress bars collapsed, control sequences removed, secrets masked.

Covered: carriage-return progress bars, invalid UTF-8, and what `redact` covers.
Not covered: what the lines mean.
"""

from __future__ import annotations

from infra_agent.redact.masker import NO_SECRETS, Masker
from probes.clean import strip

_LINE_CHARACTERS = 500


def clean_line(line: str, masker: Masker = NO_SECRETS) -> str:
    """One line without control sequences; of a redrawn line only its last state; secrets become `***`."""
    states = [state for state in line.split("\r") if strip(state).strip()]
    text = masker.text(strip(states[-1] if states else ""))
    return text.rstrip()[:_LINE_CHARACTERS]


def clean_lines(data: bytes, count: int, masker: Masker = NO_SECRETS) -> tuple[str, ...]:
    """The last `count` non-empty lines of raw output, cleaned."""
    if count <= 0:
        return ()
    lines = (clean_line(line, masker) for line in data.decode("utf-8", "replace").split("\n"))
    return tuple([line for line in lines if line][-count:])
