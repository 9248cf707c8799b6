"""Puts the numeric judge's candidates behind the sandbox: no network, no view of the reference, one writable directory.

Covered: walls as `hold_walls` tested them; the files that must stay out of sight are covered even where an
interpreter's installation would show them.
Not covered: memory (the judge limits and watches it itself).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from infra_agent.harness.sandbox import Walls, outer_env, wrap
from probes.numeric.judge.runner import Command


class SandboxRunner:
    """The judge's `Runner`, made of walls that hold."""

    def __init__(self, walls: Walls) -> None:
        self._walls = walls
        self.name = "bubblewrap, no network" if walls.mode == "bubblewrap" else "no sandbox"

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
        if self._walls.mode == "none":
            return Command(argv=tuple(argv), env=dict(env))
        covers = {path: None if path.is_dir() else Path("/dev/null") for path in hidden if path.exists()}
        words = wrap(
            argv,
            self._walls,
            writable=[directory],
            env=env,
            cwd=directory,
            readable=readable,
            network="none",
            overlays=covers,
        )
        return Command(argv=tuple(words), env=outer_env())
