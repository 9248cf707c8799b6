"""The harness's side of the in-process reporter: start the engine with it, ask it what is in effect.

Covered: engines whose interpreter reads PYTHONPATH; a silent or broken reporter is an empty answer with a reason.
Not covered: engines that are not Python, or run with -I or -E.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

INJECT = Path(__file__).with_name("inject")
_VARIABLE = "INFRA_AGENT_REPORTER"
_SOCKET_NAME = "report.sock"
_LONGEST_PATH = 96
_TIMEOUT_S = 20.0
_LARGEST_ANSWER = 1 << 20
Signals = Mapping[str, float | str | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Effective state as read inside the engine, and why parts of it are missing."""

    signals: Signals = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def socket_directory(scratch: Path) -> Iterator[Path]:
    """A directory for the socket: the scratch directory, or a private short one where that path is too long."""
    if len(os.fsencode(scratch / _SOCKET_NAME)) <= _LONGEST_PATH:
        (scratch / _SOCKET_NAME).unlink(missing_ok=True)
        yield scratch
        return
    directory = Path(tempfile.mkdtemp(prefix="infra-agent-", dir="/tmp"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def with_reporter(env: Mapping[str, str], directory: Path) -> dict[str, str]:
    """The environment of an engine that reports: our directory first on PYTHONPATH, and where to listen."""
    paths = [str(INJECT), *filter(None, [env.get("PYTHONPATH")])]
    return {**env, "PYTHONPATH": os.pathsep.join(paths), _VARIABLE: str(directory / _SOCKET_NAME)}


def ask(directory: Path, timeout_s: float = _TIMEOUT_S) -> Snapshot:
    """What is in effect now. An engine that cannot tell gives no signals and an error named `reporter`."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            ends_s = time.monotonic() + timeout_s
            connection.connect(str(directory / _SOCKET_NAME))
            _send(connection, {"ask": "snapshot"})
            return _parse(_receive_document(connection, ends_s))
    except (OSError, EOFError, ValueError) as error:
        return Snapshot(errors={"reporter": str(error) or type(error).__name__})


def _parse(document: object) -> Snapshot:
    if not isinstance(document, dict) or not isinstance(document.get("snapshot"), dict):
        raise ValueError("the reporter's answer is not a snapshot")
    signals = {str(k): v for k, v in document["snapshot"].items() if isinstance(v, bool | int | float | str)}
    errors = document.get("errors")
    return Snapshot(
        signals=signals,
        errors={str(k): str(v) for k, v in errors.items()} if isinstance(errors, dict) else {},
    )


def _send(connection: socket.socket, document: object) -> None:
    data = json.dumps(document).encode()
    connection.sendall(struct.pack("!I", len(data)) + data)


def _receive_document(connection: socket.socket, ends_s: float) -> object:
    (length,) = struct.unpack("!I", _receive(connection, 4, ends_s))
    if length > _LARGEST_ANSWER:
        raise ValueError(f"the reporter's answer has {length} bytes")
    return json.loads(_receive(connection, length, ends_s))


def _receive(connection: socket.socket, count: int, ends_s: float) -> bytes:
    """Exactly `count` bytes; the deadline is for all of them, however slowly they come."""
    data = bytearray()
    while len(data) < count:
        left_s = ends_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the reporter's answer did not come to an end")
        connection.settimeout(left_s)
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise EOFError("the reporter closed the connection")
        data += chunk
    return bytes(data)
