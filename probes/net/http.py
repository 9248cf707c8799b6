"""HTTP clients that go through a connector where there is one, and by plain TCP where there is none.

Covered: httpx clients, blocking and asyncio, with httpx's own errors, time-outs and connection pool.
Not covered: TLS, proxies and HTTP/2 through a connector; hosts other than this loopback interface.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpcore
import httpx

from probes.net.connector import LOOPBACK
from probes.net.via import TIMEOUT_S, connect, connect_async

LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20)
_HOSTS = frozenset({LOOPBACK, "localhost"})


def sync_client(via: Path | None, **options: Any) -> httpx.Client:
    """An httpx.Client with these options that ignores proxies of the environment. `via`: the connector's socket."""
    transport = None if via is None else _Transport(via)
    return httpx.Client(transport=transport, trust_env=False, **options)


def async_client(via: Path | None, *, limits: httpx.Limits = LIMITS, **options: Any) -> httpx.AsyncClient:
    """The same for asyncio."""
    transport = None if via is None else _AsyncTransport(via, limits)
    return httpx.AsyncClient(transport=transport, limits=limits, trust_env=False, **options)


class _Transport(httpx.BaseTransport):
    def __init__(self, via: Path) -> None:
        self._pool = httpcore.ConnectionPool(network_backend=_Backend(via))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with _httpx_errors():
            answer = self._pool.handle_request(_core_request(request))
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    def close(self) -> None:
        self._pool.close()


class _AsyncTransport(httpx.AsyncBaseTransport):
    def __init__(self, via: Path, limits: httpx.Limits) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=_AsyncBackend(via),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with _httpx_errors():
            answer = await self._pool.handle_async_request(_core_request(request))
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_AsyncBody(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _httpx_errors():
            yield from self._stream

    def close(self) -> None:
        self._stream.close()


class _AsyncBody(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _httpx_errors():
            async for part in self._stream:
                yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Backend(httpcore.NetworkBackend):
    """Opens what httpcore takes for TCP connections."""

    def __init__(self, via: Path) -> None:
        self._via = via

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        with _core_errors(httpcore.ConnectTimeout, httpcore.ConnectError):
            _require_loopback(host)
            return _Stream(connect(self._via, port, TIMEOUT_S if timeout is None else timeout))


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, via: Path) -> None:
        self._via = via

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        with _core_errors(httpcore.ConnectTimeout, httpcore.ConnectError):
            _require_loopback(host)
            return _AsyncStream(await connect_async(self._via, port, TIMEOUT_S if timeout is None else timeout))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _core_errors(httpcore.ReadTimeout, httpcore.ReadError):
            self._connection.settimeout(timeout)
            return self._connection.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _core_errors(httpcore.WriteTimeout, httpcore.WriteError):
            self._connection.settimeout(timeout)
            self._connection.sendall(buffer)

    def close(self) -> None:
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:
        return _extra_info(self._connection, info)


class _AsyncStream(httpcore.AsyncNetworkStream):
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _core_errors(httpcore.ReadTimeout, httpcore.ReadError):
            async with asyncio.timeout(timeout):
                return await self._loop.sock_recv(self._connection, max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _core_errors(httpcore.WriteTimeout, httpcore.WriteError):
            async with asyncio.timeout(timeout):
                await self._loop.sock_sendall(self._connection, buffer)

    async def aclose(self) -> None:
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:
        return _extra_info(self._connection, info)


def _extra_info(connection: socket.socket, info: str) -> Any:
    """What httpcore asks of a stream: an idle connection that became readable was closed by the server."""
    if info == "is_readable":
        if connection.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        return bool(poll.poll(0))
    return connection if info == "socket" else None


def _require_loopback(host: str) -> None:
    if host not in _HOSTS:
        raise OSError(f"{host} cannot be reached through a connector, only {LOOPBACK}")


def _core_request(request: httpx.Request) -> httpcore.Request:
    url = request.url
    target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    return httpcore.Request(
        method=request.method,
        url=target,
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


@contextmanager
def _core_errors(late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Errors of a socket as httpcore's."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error) or "timed out") from error
    except OSError as error:
        raise failed(str(error)) from error


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """Errors of httpcore as those of httpx, which carry the same names."""
    try:
        yield
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        same = getattr(httpx, type(error).__name__, httpx.TransportError)
        raise same(str(error)) from error
