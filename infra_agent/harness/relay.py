"""A door for people: a port of this machine whose connections are passed on to an engine in a network of its own.

The engine itself still cannot reach the machine. Nothing is measured through a relay: it copies every byte.

Covered: both directions, half-closed connections, an engine that refuses, clients that vanish, its own end.
Not covered: other interfaces than the loopback one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra_agent.errors import PortInUse
from infra_agent.harness.ports import LOOPBACK, require_free
from probes.net.via import open_connection

_CHUNK_BYTES = 1 << 16
_START_TIMEOUT_S = 10.0


@contextmanager
def relayed(via: Path, port: int) -> Iterator[None]:
    """Pass connections to `port` of this machine on to the same port behind the connector `via`, until the end.

    Raises PortInUse.
    """
    require_free(LOOPBACK, port)
    relay = _Relay(via, port)
    relay.start()
    try:
        yield
    finally:
        relay.stop()


class _Relay:
    """An event loop in a thread of its own."""

    def __init__(self, via: Path, port: int) -> None:
        self._via, self._port = via, port
        self._ready, self._failure = threading.Event(), ""
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(_START_TIMEOUT_S)
        if self._failure:
            self._thread.join()
            raise PortInUse(f"port {self._port} cannot be listened on: {self._failure}", where=LOOPBACK)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            server = await asyncio.start_server(self._pass_on, LOOPBACK, self._port)
        except OSError as error:
            self._failure = error.strerror or str(error)
            return
        finally:
            self._ready.set()
        try:
            await self._end.wait()
        finally:
            server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await open_connection(self._via, self._port)
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, inner_writer))
                both.create_task(_copy(inner_reader, writer))
        finally:
            for each in (inner_writer, writer):
                each.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Until the source ends; then the sink is told so, and may still answer."""
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK_BYTES):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
