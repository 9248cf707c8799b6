"""How a candidate's process is started. The walls are somebody else's work and are passed in.

Covered: the seam, and a runner without walls for candidates that are trusted.
Not covered: a sandbox (`infra_agent.harness.numeric_runner` supplies one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is really started, and with which environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


class Runner(Protocol):
    """Puts a command behind walls. `name` goes into the verdict and into its digest."""

    name: str

    def command(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        directory: Path,
        readable: Sequence[Path],
        hidden: Sequence[Path],
    ) -> Command:
        """The command behind the walls: it may write in `directory` only, and sees `readable` but never `hidden`."""
        ...


class PlainRunner:
    """No walls: the candidate can read and do what the user can. For own code only."""

    name = "no sandbox"

    def command(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        directory: Path,
        readable: Sequence[Path],
        hidden: Sequence[Path],
    ) -> Command:
        """As it is."""
        return Command(argv=tuple(argv), env=dict(env))
