"""The first program in a sandbox: sets up what can only be set up inside, then becomes the command.

    python -I -S inside.py OPTIONS COMMAND ...

OPTIONS is a JSON object. `tasks`: most processes and threads (RLIMIT_NPROC; it counts inside this sandbox only, since
the sandbox has a user namespace of its own). `hand_over`: a listening descriptor, and `connector`: the path of the
program that serves it (`probes.net.connector`).

Standard library only. Covered: the command gets neither descriptor nor child process from here.
Not covered: limits that can be set outside; the keeper sets those.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import sys


def main(argv: list[str]) -> int:
    """Never returns when the command could be started; 127 when not."""
    options, command = json.loads(argv[0]), argv[1:]
    if "hand_over" in options:
        runpy.run_path(options["connector"])["start"](options["hand_over"])
    if "tasks" in options:
        _limit_tasks(int(options["tasks"]))
    return _become(command)


def _limit_tasks(count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if most != resource.RLIM_INFINITY:
        count = min(count, most)
    resource.setrlimit(resource.RLIMIT_NPROC, (count, count))


def _become(command: list[str]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
