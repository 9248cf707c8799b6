"""One window, several client processes: one plan, one clock, one result.

Each process sends the requests whose number is its own modulo the count, so that the plan is the one of a single
process, and the monotonic clock is the machine's, so that their times are on one scale. Covered: warm-up in each,
a common start, records as they come, the end of all when one fails, is late or is interrupted.
Not covered: several machines; connections handed in by the caller (each process gets its own through `via`).
"""

from __future__ import annotations

import os
import pickle
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from probes.load.counters import moved
from probes.load.digest import OnRecord
from probes.load.heartbeat import worst
from probes.load.types import LoadRequest, RequestRecord, Window

START_AFTER_S = 0.3
STOP_S = 5.0
_SIZE = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class Ready:
    """Warm-up is over and connections are open."""

    warmup: tuple[RequestRecord, ...]


@dataclass(frozen=True, slots=True)
class Records:
    """Requests that have ended."""

    records: tuple[RequestRecord, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The window of one process, without its records."""

    window: Window


@dataclass(frozen=True, slots=True)
class Failed:
    """A process could not go on."""

    reason: str


def measure_together(
    request: LoadRequest,
    *,
    allowed_failures: int = 0,
    on_record: OnRecord | None = None,
    deadline_s: float | None = None,
) -> Window:
    """`client.measure` for `request.processes` processes; the same contract."""
    from probes.load.client import SILENT, counters_of

    began_s = time.perf_counter()
    until_s = began_s + deadline_s if deadline_s is not None else float("inf")
    with _crew(request, allowed_failures, deadline_s) as crew:
        warmup = tuple(record for message in crew.gather(Ready, until_s) for record in message.warmup)
        if not all(record.ok for record in warmup):
            return Window(records=(), warmup=warmup, lag=SILENT, wall_s=time.perf_counter() - began_s)
        before = counters_of(request)
        zero_s = time.perf_counter() + START_AFTER_S
        crew.tell(zero_s)
        windows = [message.window for message in crew.gather(Finished, until_s, on_record)]
        after = counters_of(request)
    return Window(
        records=tuple(sorted(crew.records, key=lambda record: record.id)),
        warmup=warmup,
        lag=worst([window.lag for window in windows]),
        wall_s=time.perf_counter() - began_s,
        cut=next((window.cut for window in windows if window.cut), None),
        opened=sum(window.opened for window in windows),
        cpu_s=sum(window.cpu_s for window in windows),
        zero_s=zero_s,
        counters=moved(before, after),
    )


class _Crew:
    """The processes and the pipes to them."""

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self.processes = processes
        self.records: list[RequestRecord] = []

    def tell(self, message: Any) -> None:
        """Say the same to everyone."""
        for process in self.processes:
            assert process.stdin is not None
            write_message(process.stdin, message)

    def gather(self, kind: type[Any], until_s: float, on_record: OnRecord | None = None) -> list[Any]:
        """One message of this kind from each process; records that come before it are kept."""
        found: list[Any] = []
        with selectors.DefaultSelector() as selector:
            for process in self.processes:
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ)
            while len(found) < len(self.processes):
                left_s = until_s - time.perf_counter()
                if left_s <= 0:
                    raise TimeoutError("the deadline passed in the middle of a window")
                for key, _ in selector.select(min(left_s, 1.0)):
                    message = self._hear(key.fileobj)
                    if isinstance(message, Records):
                        self._keep(message, on_record)
                    elif isinstance(message, kind):
                        found.append(message)
                        selector.unregister(key.fileobj)
        return found

    def _hear(self, pipe: Any) -> Any:
        message = read_message(pipe)
        if message is None or isinstance(message, Failed):
            raise OSError(message.reason if message else "a client process died in the middle of a window")
        return message

    def _keep(self, message: Records, on_record: OnRecord | None) -> None:
        self.records += message.records
        for record in message.records if on_record is not None else ():
            assert on_record is not None
            on_record(record)


@contextmanager
def _crew(request: LoadRequest, allowed_failures: int, deadline_s: float | None) -> Iterator[_Crew]:
    processes = [_start() for _ in range(request.processes)]
    try:
        for rank, process in enumerate(processes):
            assert process.stdin is not None
            write_message(process.stdin, (request, rank, allowed_failures, deadline_s))
        yield _Crew(processes)
    finally:
        for process in processes:
            _end(process)


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    return subprocess.Popen(
        [sys.executable, "-m", "probes.load.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path}, bufsize=0, start_new_session=True,
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    """A worker that has finished is gone by now; any other is told to go."""
    assert process.stdin is not None
    assert process.stdout is not None
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)
    process.stdin.close()
    process.stdout.close()


def write_message(pipe: IO[bytes], message: Any) -> None:
    """One message, whole. The other end is a process of our own: nothing from outside is ever read with this."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    view = memoryview(_SIZE.pack(len(data)) + data)
    while view:
        view = view[pipe.write(view) :]
    pipe.flush()


def read_message(pipe: IO[bytes]) -> Any:
    """The next message; None when the pipe has ended."""
    head = _read(pipe, _SIZE.size)
    if head is None:
        return None
    data = _read(pipe, _SIZE.unpack(head)[0])
    return None if data is None else pickle.loads(data)


def _read(pipe: IO[bytes], count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = pipe.read(count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
