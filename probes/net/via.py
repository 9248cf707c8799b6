"""A TCP connection to a server in another network: asked of the connector there, handed over as an open socket.

Covered: blocking and asyncio callers, deadlines, and distrust: what arrives must be one connected TCP socket to the
loopback port that was asked for, else it is closed and refused. `probes.net.connector` is the other side.
Not covered: a server that keeps a copy of the socket and changes its flags: it disturbs its own connection only.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from probes.net.connector import ANSWER, LOOPBACK, MAGIC, REQUEST

TIMEOUT_S = 15.0
_BUSY = (errno.EAGAIN, errno.EINTR)
_BUSY_PAUSE_S = 0.002
_DESCRIPTOR = struct.Struct("i")


class HandOverError(ConnectionError):
    """The connector's answer is not a connection to the port that was asked for."""


def connect(path: Path, port: int, timeout_s: float = TIMEOUT_S) -> socket.socket:
    """A blocking TCP socket connected to `port` on the loopback interface of the connector behind `path`.

    Raises OSError: the errno that connecting there gave, TimeoutError, or HandOverError.
    """
    until_s = time.monotonic() + timeout_s
    with _channel() as channel:
        while not _dialled(channel, path):
            if time.monotonic() > until_s:
                raise TimeoutError(f"the connector at {path} is busy")
            time.sleep(_BUSY_PAUSE_S)
        channel.settimeout(max(_BUSY_PAUSE_S, until_s - time.monotonic()))
        channel.send(_request(port))
        return _receive(channel, port)


async def connect_async(path: Path, port: int, timeout_s: float = TIMEOUT_S) -> socket.socket:
    """The same for a running event loop; the socket is non-blocking."""
    with _channel() as channel:
        async with asyncio.timeout(timeout_s):
            while not _dialled(channel, path):
                await asyncio.sleep(_BUSY_PAUSE_S)
            channel.send(_request(port))
            await _readable(channel)
        connection = _receive(channel, port)
    connection.setblocking(False)
    return connection


async def open_connection(
    path: Path, port: int, *, limit: int = 1 << 16, timeout_s: float = TIMEOUT_S
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The same as a pair of asyncio streams, like `asyncio.open_connection`."""
    connection = await connect_async(path, port, timeout_s)
    try:
        return await asyncio.open_connection(sock=connection, limit=limit)
    except BaseException:
        connection.close()
        raise


@contextmanager
def _channel() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.setblocking(False)
        yield channel


def _dialled(channel: socket.socket, path: Path) -> bool:
    """Whether the connector took the call; False when its queue is full just now."""
    try:
        channel.connect(str(path))
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


async def _readable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(channel, tell)
    try:
        await ready
    finally:
        loop.remove_reader(channel)


def _request(port: int) -> bytes:
    if not 0 < port < 1 << 16:
        raise OSError(errno.EINVAL, f"{port} is no TCP port")
    return REQUEST.pack(MAGIC, port)


def _receive(channel: socket.socket, port: int) -> socket.socket:
    """The answer, distrusted: everything that came is closed unless it is exactly what was asked for."""
    data, descriptors = _message(channel)
    try:
        if not data:
            raise HandOverError("the connector hung up without an answer")
        if len(data) != ANSWER.size:
            raise HandOverError("the connector's answer is garbage")
        (code,) = ANSWER.unpack(data)
        if code:
            raise _error(code, port)
        if len(descriptors) != 1:
            raise HandOverError("the connector promised a connection and sent none")
        return _trusted(descriptors.pop(), port)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """One message and at most one descriptor, closed on exec from the start (`socket.recv_fds` leaves it open)."""
    room = socket.CMSG_LEN(_DESCRIPTOR.size)
    data, ancillary, _, _ = channel.recvmsg(ANSWER.size + 1, room, socket.MSG_CMSG_CLOEXEC)
    rights = [payload for level, kind, payload in ancillary if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
    whole = (payload[: len(payload) - len(payload) % _DESCRIPTOR.size] for payload in rights)
    return data, [fd for payload in whole for (fd,) in _DESCRIPTOR.iter_unpack(payload)]


def _error(code: int, port: int) -> OSError:
    """The errno of the other side as the exception that a plain connect would have raised."""
    if code not in errno.errorcode:
        return HandOverError(f"the connector answered with errno {code}, which does not exist")
    return OSError(code, f"{os.strerror(code)} (port {port} in the sandbox)")


def _trusted(descriptor: int, port: int) -> socket.socket:
    """The descriptor as a socket, if it is a TCP connection to that loopback port; closed otherwise."""
    try:
        connection = socket.socket(fileno=descriptor)
    except OSError as error:
        os.close(descriptor)
        raise HandOverError("the connector sent something that is no socket") from error
    try:
        kind = (connection.family, connection.type, connection.proto)
        if kind != (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP):
            raise HandOverError("the connector sent a socket that is not TCP")
        if connection.getpeername() != (LOOPBACK, port):
            raise HandOverError("the connector sent a connection to another place than was asked for")
        connection.setblocking(True)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        connection.close()
        if isinstance(error, HandOverError):
            raise
        raise HandOverError(f"the connection that the connector sent is broken: {error}") from error
    return connection
