"""Which sockets are ready, with waits finer than the millisecond of epoll.

A request that is due in 0.3 ms must not wait for 1 ms, and a client that spins instead burns the core it measures on.
Covered: epoll, its last millisecond waited out by `select` on the epoll descriptor itself; any other selector of the
platform. Not covered: Windows' limit of 512 sockets.
"""

from __future__ import annotations

import select
import selectors
import socket
from typing import Protocol

READ, WRITE = 1, 4
"""Bits of a readiness mask; further bits are errors, which reading brings to light."""
SELECT_LIMIT = 1024
Ready = list[tuple[int, int]]


class Poller(Protocol):
    """Watches file descriptors."""

    def watch(self, fd: int, mask: int) -> None:
        """Begin to watch."""

    def change(self, fd: int, mask: int) -> None:
        """Watch for something else."""

    def forget(self, fd: int) -> None:
        """Stop watching; the descriptor is still open."""

    def wait(self, timeout_s: float) -> Ready:
        """Descriptors that are ready, after at most `timeout_s` seconds."""

    def close(self) -> None:
        """Release the poller's own descriptor."""


def best_poller() -> Poller:
    """The finest poller of this platform."""
    return EpollPoller() if hasattr(select, "epoll") else SelectorPoller()


class EpollPoller:
    """Linux."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._fine = self._epoll.fileno() < SELECT_LIMIT
        self.watch = self._epoll.register
        self.change = self._epoll.modify
        self.forget = self._epoll.unregister

    def wait(self, timeout_s: float) -> Ready:
        """May return early and empty: the caller looks at the clock and waits again."""
        if timeout_s >= 0.001:
            return self._epoll.poll(int(timeout_s * 1000) / 1000)
        if timeout_s > 0:
            if not self._fine:
                return self._epoll.poll(0.001)
            select.select((self._epoll,), (), (), timeout_s)
        return self._epoll.poll(0)

    def close(self) -> None:
        """Release the descriptor."""
        self._epoll.close()


class SelectorPoller:
    """Every other platform; kqueue waits by the nanosecond."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, fd: int, mask: int) -> None:
        """Begin to watch."""
        self._selector.register(fd, _events(mask))

    def change(self, fd: int, mask: int) -> None:
        """Watch for something else."""
        self._selector.modify(fd, _events(mask))

    def forget(self, fd: int) -> None:
        """Stop watching."""
        self._selector.unregister(fd)

    def wait(self, timeout_s: float) -> Ready:
        """Descriptors that are ready."""
        ready = self._selector.select(max(0.0, timeout_s))
        return [(key.fd, READ * bool(mask & 1) | WRITE * bool(mask & 2)) for key, mask in ready]

    def close(self) -> None:
        """Release the descriptor."""
        self._selector.close()


def _events(mask: int) -> int:
    return selectors.EVENT_READ * bool(mask & READ) | selectors.EVENT_WRITE * bool(mask & WRITE)


def nodelay(sock: socket.socket) -> None:
    """Send small writes at once."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
