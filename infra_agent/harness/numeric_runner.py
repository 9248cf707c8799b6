"""Puts the numeric judge's candidates behind the sandbox: no network, no view of the reference, one writable directory.

Covered: walls that are tested when the first candidate is started, not before (a verdict from the cache needs none);
files that must stay out of sight are covered even where an interpreter's installation would show them.
Not covered: memory (the judge limits and watches it itself).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra_agent.harness.sandbox import NO_WALLS, Walls, outer_env, wrap
from probes.numeric.judge.runner import Command

BEHIND = "bubblewrap, no network"
WITHOUT = "no sandbox"


class SandboxRunner:
    """The judge's `Runner`. `name` says which walls a verdict stands for.

    `hold` gives walls that were tested (or raises SandboxUnavailable), and never less than `no_sandbox` allows.
    """

    def __init__(self, hold: Callable[[], Walls], *, no_sandbox: bool = False) -> None:
        self._hold, self._walls = hold, None if not no_sandbox else NO_WALLS
        self.name = WITHOUT if no_sandbox else BEHIND

    def command(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        directory: Path,
        readable: Sequence[Path],
        hidden: Sequence[Path],
    ) -> Command:
        """Bubblewrap's command; unchanged without walls."""
        if self._walls is None:
            self._walls = self._hold()
        walls = self._walls
        if walls.mode == "none":
            return Command(argv=tuple(argv), env=dict(env))
        covers = {path: None if path.is_dir() else Path("/dev/null") for path in hidden if path.exists()}
        words = wrap(
            argv, walls, writable=[directory], env=env, cwd=directory, readable=readable, network="none",
            overlays=covers,
        )  # fmt: skip
        return Command(argv=tuple(words), env=outer_env())
