"""The first program in a sandbox: sets up what can only be set up inside, then becomes the command.

    python -I -S inside.py [tasks=N] [hand_over=FD connector=PATH] -- COMMAND ...

`tasks`: most processes and threads (RLIMIT_NPROC; it counts inside this sandbox only, since the sandbox has a user
namespace of its own). `hand_over`: a listening descriptor, and `connector`: the program that serves it
(`probes.net.connector`).

Standard library only, and little of it: every launch waits for this.
Covered: the command gets neither descriptor nor child process from here.
Not covered: limits that can be set outside; the keeper sets those.
"""

from __future__ import annotations

import os
import resource
import sys


def main(argv: list[str]) -> int:
    """Never returns when the command could be started; 127 when not."""
    end = argv.index("--")
    options = dict(word.split("=", 1) for word in argv[:end])
    if "hand_over" in options:
        _start_connector(options["connector"], int(options["hand_over"]))
    if "tasks" in options:
        _limit_tasks(int(options["tasks"]))
    return _become(argv[end + 1 :])


def _start_connector(path: str, listener: int) -> None:
    folder, _, file = path.rpartition("/")
    sys.path.append(folder)
    __import__(file.removesuffix(".py")).start(listener)


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
