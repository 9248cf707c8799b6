"""Keeps the float32 oracle process: started when the first close call needs it, stopped with the run.

It runs behind the same walls as an engine, without any network: it is asked over its own pipes.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from infra_agent.errors import ConfigError
from infra_agent.harness.sandbox import Walls, wrap
from infra_agent.stack.model import Stack
from probes.numeric.oracle import OracleProcess, worker_env
from probes.numeric.types import OracleError


class OracleHolder:
    """A lazily started oracle; `get` returns None for a stack that has none."""

    def __init__(self, stack: Stack, walls: Walls, scratch: Path) -> None:
        """`scratch`: a directory that it alone may write."""
        self._stack = stack
        self._walls = walls
        self._scratch = scratch.absolute()
        self._process: OracleProcess | None = None

    def get(self) -> OracleProcess | None:
        """The running oracle."""
        python = self._stack.launch.python
        if self._stack.reference.oracle == "none" or python is None or not self._stack.model:
            return None
        if self._process is None or not self._process.running:
            self.close()
            process = OracleProcess(python, self._stack.model, wrap=self._wrap)
            try:
                process.__enter__()
            except OracleError as error:
                raise ConfigError(
                    f"the float32 oracle cannot run: {error}",
                    where="reference.oracle",
                    hint='mend what it names, or set reference.oracle = "none": unequal answers then stay undecided',
                ) from error
            self._process = process
        return self._process

    def _wrap(self, argv: list[str]) -> list[str]:
        if self._walls.mode == "none":
            return argv
        self._scratch.mkdir(parents=True, exist_ok=True)
        env = worker_env(os.environ) | {"HOME": str(self._scratch), "TMPDIR": str(self._scratch)}
        return wrap(argv, self._walls, writable=[self._scratch], env=env, cwd=self._scratch)

    def close(self) -> None:
        """Stop it, if it was started."""
        if self._process is not None:
            self._process.__exit__(None, None, None)
            self._process = None

    def __enter__(self) -> OracleHolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
