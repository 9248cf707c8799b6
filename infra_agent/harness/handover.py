"""The harness's end of a hand-over: a listening socket that a sandbox inherits, in a directory of its own.

The socket is bound here and only its open descriptor goes into the sandbox, so nothing inside can put another socket
in its place. `probes.net.connector` serves it there, `probes.net.via` asks it from here.

Covered: paths short enough for a socket address; removal of the directory, by the keeper where the harness was killed.
Not covered: a harness killed between making the directory and starting the keeper.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from probes.net.connector import BACKLOG

_LONGEST_DIRECTORY = 80


@dataclass(frozen=True, slots=True)
class HandOver:
    """`path` is what clients open; `listener` is what the sandbox inherits and the harness then closes."""

    path: Path
    listener: socket.socket


@contextmanager
def hand_over() -> Iterator[HandOver]:
    """A listening socket that nobody serves yet. The listener is closed and the directory removed at the end."""
    short = tempfile.gettempdir() if len(tempfile.gettempdir()) < _LONGEST_DIRECTORY else "/tmp"
    directory = Path(tempfile.mkdtemp(prefix="infra-agent-", dir=short))
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            path = directory / "connect.sock"
            listener.bind(str(path))
            listener.listen(BACKLOG)
            yield HandOver(path, listener)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
