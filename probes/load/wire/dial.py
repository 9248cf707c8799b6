"""Begins connections to one server: by TCP, or through a unix socket that hands out connections.

Covered: names with several addresses (the first that answers is used), TLS contexts, a doorway into a sandboxed
network. Not covered: proxies (a proxy's time would be measured as the server's).
"""

from __future__ import annotations

import contextlib
import importlib
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from probes.load.wire.poller import nodelay

TRY_ADDRESS_S = 2.0
DEFAULT_PORTS = {"http": 80, "https": 443}


class Connect(Protocol):
    """Gets a connected TCP socket to `port` through the doorway `via`."""

    def __call__(self, via: Path, port: int) -> socket.socket:
        """Raises OSError when there is no such connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where connections go. `address` is (family, socket address); None when the name has none."""

    host: str
    port: int
    address: tuple[int, Any] | None
    trouble: str = ""
    tls: ssl.SSLContext | None = None
    via: Path | None = None
    connect: Connect | None = None

    def dial(self) -> socket.socket:
        """A non-blocking socket that is connected or on its way. Raises OSError."""
        if self.via is not None:
            sock = (self.connect or _sandbox_connect)(self.via, self.port)
        elif self.address is None:
            raise OSError(self.trouble)
        else:
            sock = socket.socket(self.address[0], socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            nodelay(sock)
            if self.via is None and self.address is not None:
                _begin(sock, self.address[1])
        except BaseException:
            sock.close()
            raise
        return sock


def find_target(
    base_url: str, *, via: Path | None = None, ca_file: Path | None = None, connect: Connect | None = None
) -> Target:
    """The target of a URL that was checked before. Raises ValueError for a CA file that cannot be used."""
    parts = urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    tls = _tls_context(ca_file) if parts.scheme == "https" else None
    address, trouble = (None, "") if via is not None else _address(host, port)
    return Target(
        host=host, port=port, address=address, trouble=trouble, tls=tls, via=via, connect=connect if via else None
    )


def _address(host: str, port: int) -> tuple[tuple[int, Any] | None, str]:
    """The first address that accepts a connection; the first of all when none does."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return None, f"{host} has no address: {error.strerror or error}"
    addresses = [(int(family), address) for family, _, _, _, address in found]
    for family, address in addresses if len(addresses) > 1 else ():
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(TRY_ADDRESS_S)
            if sock.connect_ex(address) == 0:
                return (family, address), ""
    return addresses[0], ""


def _begin(sock: socket.socket, address: Any) -> None:
    with contextlib.suppress(BlockingIOError, InterruptedError):  # on its way; the loop hears of its end
        sock.connect(address)


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"no certificates can be read from {ca_file}: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def _sandbox_connect(via: Path, port: int) -> socket.socket:
    connect: Connect = importlib.import_module("probes.net.via").connect
    return connect(via, port)
