"""Command lines forked from a process that has imported everything already: a start costs milliseconds, not seconds.

`Nursery` is the side of the tests. Run as a module it is the other side: it reads one request a line, forks, waits for
the child and answers with its exit code, minus the signal that ended it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TESTS = Path(__file__).resolve().parents[1]
IMPORTED = (
    "infra_agent.agent.run", "infra_agent.agent.under_way", "infra_agent.cli.main", "infra_agent.cli.run",
    "infra_agent.harness.selftest", "infra_agent.ledger.verify", "infra_agent.publish.publish", "simulated.worlds",
)  # fmt: skip
LONGEST_S = 240
"""A command line that hangs is ended by SIGALRM and seen as such."""


class Nursery:
    """One process to fork from; runs one command line at a time."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(TESTS.parent), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simulated.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        self._ask("")

    def run(self, argv: list[str], world: str, folder: Path, environ: dict[str, str], output: Path) -> int:
        """`infra-agent ARGV` in a folder with these variables besides; its output is appended to a file.

        `world`: what is simulated around it, a name of `simulated.worlds`.
        """
        return int(self._ask(json.dumps([argv, world, str(folder), environ, str(output)])))

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        """End the process that is forked from."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main() -> None:
    """The other side. The walls are tried once, here, and not again by each command line."""
    for name in IMPORTED:
        importlib.import_module(name)
    from infra_agent.harness.sandbox import hold_walls

    walls = {no_sandbox: hold_walls(no_sandbox) for no_sandbox in (False, True)}
    for line in sys.stdin:
        sys.stdout.write(f"{_fork(walls, *json.loads(line))}\n" if line.strip() else "ready\n")
        sys.stdout.flush()


def _fork(
    walls: dict[bool, Any], argv: list[str], world: str, folder: str, environ: dict[str, str], output: str
) -> int:
    pid = os.fork()
    if pid == 0:
        _be_the_command_line(walls, argv, world, folder, environ, output)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _be_the_command_line(
    walls: dict[bool, Any], argv: list[str], world: str, folder: str, environ: dict[str, str], output: str
) -> None:
    from simulated.worlds import enter

    from infra_agent.cli.main import main as command_line
    from infra_agent.harness import sandbox

    code = 70
    signal.alarm(LONGEST_S)
    try:
        os.chdir(folder)
        os.environ.update(environ)
        null, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for source, target in ((null, 0), (file, 1), (file, 2)):
            os.dup2(source, target)
        sandbox.hold_walls = lambda no_sandbox, *_rest, **_words: walls[no_sandbox]
        enter(world)
        command_line(argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
