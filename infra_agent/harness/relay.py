"""A door for people: a port of this machine whose connections are passed on to an engine in a network of its own.

The engine itself still cannot reach the machine. Nothing is measured through a relay: it copies every byte.

Covered: both directions, half-closed connections, an engine that refuses, clients that vanish, its own end.
Not covered: other interfaces than the loopback one.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra_agent.errors import PortInUse
from infra_agent.harness.ports import LOOPBACK, require_free
from probes.net.via import connect

_CHUNK_BYTES = 1 << 16
_POLL_S = 0.05
_END_S = 5.0


@contextmanager
def relayed(via: Path, port: int) -> Iterator[None]:
    """Pass connections to `port` of this machine on to the same port behind the connector `via`, until the end.

    Raises PortInUse.
    """
    require_free(LOOPBACK, port)
    try:
        server = _Server(via, port)
    except OSError as error:
        raise PortInUse(f"port {port} cannot be listened on: {error.strerror}", where=f"{LOOPBACK}:{port}") from error
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), name="relay", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join(_END_S)
        server.hang_up()
        server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    """One thread for each connection; `server_close` waits for them."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, via: Path, port: int) -> None:
        self.via, self.port = via, port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._ended = False
        super().__init__((LOOPBACK, port), _Connection)

    @contextmanager
    def kept(self, connection: socket.socket) -> Iterator[None]:
        """Keep a connection in mind as long as it is open, so that it can be ended from outside."""
        with self._lock:
            if self._ended:
                _shut(connection, socket.SHUT_RDWR)
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)

    def hang_up(self) -> None:
        """End every connection, in both directions."""
        with self._lock:
            self._ended = True
            for connection in self._open:
                _shut(connection, socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a connection that breaks is the business of its two ends."""


class _Connection(socketserver.BaseRequestHandler):
    """One client and its connection to the engine."""

    def handle(self) -> None:
        """Copy both ways until both ends have said that they are done."""
        server = self.server
        assert isinstance(server, _Server)
        with connect(server.via, server.port) as inner, server.kept(inner), server.kept(self.request):
            back = threading.Thread(target=_copy, args=(inner, self.request), name="relay-back", daemon=True)
            back.start()
            _copy(self.request, inner)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Until the source ends; then the sink is told so, and may still answer. A broken end breaks the other."""
    try:
        while data := source.recv(_CHUNK_BYTES):
            sink.sendall(data)
        _shut(sink, socket.SHUT_WR)
    except OSError:
        _shut(source, socket.SHUT_RDWR)
        _shut(sink, socket.SHUT_RDWR)


def _shut(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(how)
