"""One connection: on its way, idle, or carrying one request. Every read is stamped the moment it returns.

Covered: non-blocking connect, TLS, writes that do not fit at once, servers that close or speak while nobody asked.
Not covered: pipelining.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from probes.load.wire.dial import Target
from probes.load.wire.loop import Loop
from probes.load.wire.poller import READ, WRITE

READ_BYTES = 10 * 1024 * 1024
"""One read takes whatever has arrived; a smaller buffer makes a large chunk look slow."""


class Sink(Protocol):
    """Hears what comes back for one request."""

    def take(self, now_s: float, data: bytes) -> None:
        """Bytes that a read returned at `now_s`."""

    def lost(self, now_s: float, reason: str) -> None:
        """The connection is gone."""


class Stage(Enum):
    """Where a connection is in its life."""

    CONNECTING = "connecting"
    HANDSHAKE = "handshake"
    OPEN = "open"
    CLOSED = "closed"


class Connection:
    """`on_open` is called once when it can be used, `on_end` once when it is gone, with the reason."""

    __slots__ = (
        "_buffer", "_clock", "_host", "_loop", "_on_end", "_on_open", "_out", "_sock", "_tls", "_view", "_writing",
        "fd", "idle_since_s", "served", "sink", "stage",
    )  # fmt: skip

    def __init__(
        self,
        loop: Loop,
        target: Target,
        buffer: bytearray,
        on_open: Callable[[Connection], None],
        on_end: Callable[[Connection, str], None],
    ) -> None:
        self._loop, self._clock = loop, loop.clock
        self._buffer, self._view = buffer, memoryview(buffer)
        self._on_open, self._on_end = on_open, on_end
        self._out: memoryview | None = None
        self._sock: socket.socket | ssl.SSLSocket = target.dial()
        self._writing = False
        self._tls, self._host = target.tls, target.host
        self.sink: Sink | None = None
        self.stage = Stage.CONNECTING
        self.idle_since_s = 0.0
        self.served = 0
        self.fd = self._sock.fileno()
        loop.watch(self.fd, WRITE, self._ready)

    def send(self, data: bytes, sink: Sink) -> None:
        """Write a request; what comes back goes to `sink`."""
        self.sink = sink
        self._out = memoryview(data)
        self._flush()

    def release(self) -> None:
        """The exchange is over; the connection is idle."""
        self.sink = None
        self.served += 1
        self.idle_since_s = self._clock()

    def close(self) -> None:
        """Close without telling anyone."""
        if self.stage is not Stage.CLOSED:
            self.stage = Stage.CLOSED
            self._loop.forget(self.fd)
            self._view.release()
            self._sock.close()

    def _ready(self, mask: int) -> None:
        if self.stage is Stage.OPEN:
            if mask & WRITE:
                self._flush()
            if mask & ~WRITE and self.stage is Stage.OPEN:
                self._read()
        elif self.stage is Stage.CONNECTING:
            self._connected()
        elif self.stage is Stage.HANDSHAKE:
            self._shake()

    def _read(self) -> None:
        try:
            count = self._sock.recv_into(self._buffer)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._lose(_words(error))
            return
        now_s = self._clock()
        sink = self.sink
        if count and sink is not None:
            sink.take(now_s, bytes(self._view[:count]))
            if self._tls is not None and self.stage is Stage.OPEN and self._pending():
                self._read()
        else:
            self._lose("the server sent bytes that nobody asked for" if count else "the server closed the connection")

    def _pending(self) -> bool:
        """Decrypted bytes that the loop cannot see are waiting."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def _flush(self) -> None:
        out = self._out
        if out is None:
            return
        try:
            count = self._sock.send(out)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            count = 0
        except OSError as error:
            # Told in the next turn: the sender may be telling of a loss itself, and so on without end.
            reason = _words(error)
            self._loop.at(self._clock(), lambda: self._lose(reason))
            return
        self._out = out[count:] if count < len(out) else None
        if self._writing != (self._out is not None):
            self._writing = not self._writing
            self._loop.change(self.fd, READ | WRITE if self._writing else READ)

    def _connected(self) -> None:
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._lose(os.strerror(error))
        elif self._tls is not None:
            self.stage = Stage.HANDSHAKE
            self._sock = self._tls.wrap_socket(
                self._sock, server_hostname=self._host, do_handshake_on_connect=False, suppress_ragged_eofs=True
            )
            self._shake()
        else:
            self._opened()

    def _shake(self) -> None:
        assert isinstance(self._sock, ssl.SSLSocket)
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.change(self.fd, READ)
        except ssl.SSLWantWriteError:
            self._loop.change(self.fd, WRITE)
        except OSError as error:
            self._lose(f"TLS: {_words(error)}")
        else:
            self._opened()

    def _opened(self) -> None:
        self.stage = Stage.OPEN
        self.idle_since_s = self._clock()
        self._loop.change(self.fd, READ)
        self._on_open(self)

    def _lose(self, reason: str) -> None:
        if self.stage is Stage.CLOSED:
            return
        now_s = self._clock()
        sink, self.sink = self.sink, None
        self.close()
        self._on_end(self, reason)
        if sink is not None:
            sink.lost(now_s, reason)


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {error.verify_message}"
    return error.strerror or str(error) or type(error).__name__
