"""Hands connections out of a sandbox: asked for a loopback port, it connects there and passes the open socket on.

A sandbox with a network of its own cannot be reached by TCP, but a unix socket with a path can be. One process inside
listens on it; each client names a port, gets back the connected TCP socket itself (SCM_RIGHTS) or an errno, and talks
over it directly: after the hand-over no byte passes through here. `probes.net.via` is the other side.

Standard library only, runs under `python -I -S`. One message asks, one answers (SOCK_SEQPACKET), so a message is
whole or garbage.
Covered: garbage, silent and vanished clients, more clients than descriptors, ports that refuse or never answer.
Not covered: addresses other than 127.0.0.1; asking who the client is (whoever can open the socket may ask).
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import struct
import time

LOOPBACK = "127.0.0.1"
MAGIC = b"port"
REQUEST = struct.Struct("!4sH")
ANSWER = struct.Struct("!i")
BACKLOG = 1024
CLIENTS = 128
DEADLINE_S = 10.0
NAME = "hand-over"
_SWEEP_S = 1.0
_OUT_OF_FDS_PAUSE_S = 0.05


def start(listener: int) -> None:
    """Leave a connector behind that serves this listening descriptor; the caller's own copy is closed.

    Forked twice, so that the caller has no child by it and never waits for it. It keeps none of the caller's
    descriptors and ends with the process space it lives in.
    """
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _become_connector(listener)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(listener)


def serve(listener: socket.socket) -> None:
    """Answer clients until the listener is closed or the process ends."""
    with selectors.DefaultSelector() as selector:
        _Desk(listener, selector).work()


def _become_connector(listener: int) -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.dup2(listener, 3)
    os.closerange(4, 4096)
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:  # noqa: PTH123
        comm.write(NAME)
    serve(socket.socket(fileno=3))


class _Client:
    """One asker, and the connection being made for it."""

    __slots__ = ("channel", "target", "until_s")

    def __init__(self, channel: socket.socket, until_s: float) -> None:
        self.channel, self.until_s = channel, until_s
        self.target: socket.socket | None = None


class _Desk:
    """The connector's one thread: accepts, reads a request, connects, answers, closes."""

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        self._listener = listener
        self._selector = selector
        self._open: dict[int, _Client] = {}
        listener.setblocking(False)

    def work(self) -> None:
        """Serve for ever."""
        listening = False
        while self._listener.fileno() >= 0:
            wanted = len(self._open) < CLIENTS
            if wanted and not listening:
                self._selector.register(self._listener, selectors.EVENT_READ)
            elif listening and not wanted:
                self._selector.unregister(self._listener)
            listening = wanted
            for key, _ in self._selector.select(_SWEEP_S if self._open else None):
                if key.data is None:
                    self._accept()
                elif key.data.target is None:
                    self._read(key.data)
                else:
                    self._connected(key.data)
            self._sweep()

    def _accept(self) -> None:
        try:
            channel, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                time.sleep(_OUT_OF_FDS_PAUSE_S)
            return
        channel.setblocking(False)
        client = _Client(channel, time.monotonic() + DEADLINE_S)
        self._open[channel.fileno()] = client
        self._selector.register(channel, selectors.EVENT_READ, client)

    def _read(self, client: _Client) -> None:
        try:
            message = client.channel.recv(REQUEST.size + 1)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        port = asked_port(message)
        if port is None:
            self._finish(client, errno.EPROTO)
            return
        try:
            client.target = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            client.target.setblocking(False)
            code = client.target.connect_ex((LOOPBACK, port))
        except OSError as error:
            code = error.errno or errno.EIO
        if code != errno.EINPROGRESS or client.target is None:
            self._finish(client, code)
            return
        self._selector.unregister(client.channel)
        self._selector.register(client.target, selectors.EVENT_WRITE, client)

    def _connected(self, client: _Client) -> None:
        assert client.target is not None
        self._finish(client, client.target.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _sweep(self) -> None:
        now_s = time.monotonic()
        for client in [client for client in self._open.values() if client.until_s < now_s]:
            self._finish(client, errno.ETIMEDOUT)

    def _finish(self, client: _Client, code: int) -> None:
        """Answer, and let go of both ends."""
        for each in (client.channel, client.target):
            with contextlib.suppress(KeyError, ValueError):
                if each is not None:
                    self._selector.unregister(each)
        self._open.pop(client.channel.fileno(), None)
        with contextlib.suppress(OSError):
            if code == 0 and client.target is not None:
                socket.send_fds(client.channel, [ANSWER.pack(0)], [client.target.fileno()])
            else:
                client.channel.send(ANSWER.pack(code or errno.EIO))
        client.channel.close()
        if client.target is not None:
            client.target.close()


def asked_port(message: bytes) -> int | None:
    """The port that a request names; None when it is no request."""
    if len(message) != REQUEST.size:
        return None
    magic, port = REQUEST.unpack(message)
    return int(port) if magic == MAGIC and port else None
