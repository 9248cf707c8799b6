"""Standard output and error of the program, with every known secret masked, whoever writes to them.

Covered: results, narration, help, errors of the command line, warnings, tracebacks; secrets that become known later.
Not covered: a secret that is written in pieces (`output` and `narrator` mask what they cut up themselves).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from infra_agent.redact.masker import NO_SECRETS, Masker


class MaskedText:
    """A text stream that masks what is written to it; everything else is the stream below."""

    def __init__(self, stream: TextIO, masker: Masker) -> None:
        self.stream = stream
        self.masker = masker

    def write(self, text: str) -> int:
        """Write the text without secrets."""
        self.stream.write(self.masker.text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def masked_streams(secrets: Iterable[str]) -> Iterator[None]:
    """Within the block, standard output and error hide these values."""
    masker = Masker(secrets)
    out, error = MaskedText(sys.stdout, masker), MaskedText(sys.stderr, masker)
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, error)):
        yield


def hide(secrets: Iterable[str]) -> None:
    """Hide more values from here on: those of a stack file, an API key."""
    values = tuple(secrets)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, MaskedText):
            stream.masker = stream.masker.adding(values)


def masker_of(stream: object) -> Masker:
    """What a stream hides; nothing for one that is not ours."""
    return stream.masker if isinstance(stream, MaskedText) else NO_SECRETS


def write_masked(text: str) -> None:
    """Write to standard output what was masked already: JSON, whose quoting a second pass could break."""
    stream = sys.stdout.stream if isinstance(sys.stdout, MaskedText) else sys.stdout
    stream.write(text)
