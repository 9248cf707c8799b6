"""Connections to one server: opened before they are needed, handed out, replaced before the server closes them.

Covered: opening ahead with one small request each, so that the server has them ready; spare connections while requests
arrive by plan; idle ones given up before common servers close them; no cap on their number.
Not covered: sharing one connection among requests (HTTP/2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from probes.load.wire.connection import READ_BYTES, Connection, Stage
from probes.load.wire.dial import Target
from probes.load.wire.http1 import ProtocolError, ResponseReader
from probes.load.wire.loop import Loop, Timer

KEEPALIVE_S = 4.0
"""Below the 5 s after which common servers close an idle connection: a request must not meet that close half-way."""
CONNECT_S = 10.0
TEND_S = 0.5

OnConnection = Callable[[Connection], None]
OnRefusal = Callable[[str], None]


class Pool:
    """Hands out connections; the most recently used first."""

    def __init__(self, loop: Loop, target: Target) -> None:
        self._loop, self._target = loop, target
        self._buffer = bytearray(READ_BYTES)
        self._idle: dict[Connection, None] = {}
        self._opening: dict[Connection, float] = {}
        self._busy: set[Connection] = set()
        self._waiting: deque[tuple[OnConnection, OnRefusal]] = deque()
        self._tending: Timer | None = None
        self._closed = False
        self.opened = 0
        """Connections opened so far."""
        self.floor = 0
        """Connections to hold, in use or idle."""
        self.spare_share: float | None = None
        """Idle connections to hold, as a share of those in use; None for none beyond `floor`."""

    def take(self, on_connection: OnConnection, on_refusal: OnRefusal) -> None:
        """Call `on_connection` with an open connection, now or when there is one; else `on_refusal` with the reason."""
        if self._idle:
            connection, _ = self._idle.popitem()
            self._lend(connection, on_connection)
        else:
            self._waiting.append((on_connection, on_refusal))
            if len(self._opening) < len(self._waiting):
                self._open()
        self._replenish()

    def give_back(self, connection: Connection, reusable: bool) -> None:
        """The exchange on this connection is over."""
        self._busy.discard(connection)
        if connection.stage is not Stage.OPEN:
            return
        if reusable:
            connection.release()
            self._available(connection)
        else:
            connection.close()
            self._replenish()

    def lent(self, connection: Connection) -> bool:
        """It is in use."""
        return connection in self._busy

    def abandon(self) -> None:
        """Forget who waits for a connection; what is opening becomes idle."""
        self._waiting.clear()

    def tend(self) -> None:
        """Begin to replace connections that grow old; goes on until `close`."""
        self._drop_stale()
        self._replenish()
        self._tending = self._loop.at(self._loop.clock() + TEND_S, self.tend)

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._tending is not None:
            self._tending.cancel()
        for connection in (*self._idle, *self._opening, *self._busy):
            connection.close()
        self._idle.clear()
        self._opening.clear()
        self._busy.clear()
        self._waiting.clear()

    def _available(self, connection: Connection) -> None:
        if self._waiting:
            on_connection, _ = self._waiting.popleft()
            self._lend(connection, on_connection)
        else:
            self._idle[connection] = None

    def _lend(self, connection: Connection, on_connection: OnConnection) -> None:
        self._busy.add(connection)
        on_connection(connection)

    def _open(self) -> None:
        try:
            connection = Connection(self._loop, self._target, self._buffer, self._is_open, self._is_gone)
        except OSError as error:
            # Told later, not from within `take`: the caller has not returned yet.
            reason = error.strerror or str(error)
            self._loop.at(self._loop.clock(), lambda: self._refuse(reason))
            return
        self._opening[connection] = self._loop.clock()

    def _is_open(self, connection: Connection) -> None:
        self._opening.pop(connection, None)
        self.opened += 1
        self._available(connection)

    def _is_gone(self, connection: Connection, reason: str) -> None:
        self._idle.pop(connection, None)  # replaced by `tend`, so that a server that hangs up is not stormed
        if connection in self._opening:
            del self._opening[connection]
            self._refuse(reason)
        elif connection in self._busy:
            self._busy.discard(connection)
            self._replenish()

    def _refuse(self, reason: str) -> None:
        """A connection could not be opened: whoever waited for it longest hears of it."""
        if len(self._waiting) > len(self._opening):
            _, on_refusal = self._waiting.popleft()
            on_refusal(reason)

    def _replenish(self) -> None:
        if self._closed:
            return
        wanted = self.floor - len(self._busy)
        if self.spare_share is not None:
            wanted = max(wanted, 4, int(self.spare_share * len(self._busy)))
        for _ in range(wanted - len(self._idle) - len(self._opening)):
            self._open()

    def _drop_stale(self) -> None:
        now_s = self._loop.clock()
        for connection in [c for c in self._idle if c.idle_since_s < now_s - KEEPALIVE_S]:
            del self._idle[connection]
            connection.close()
        for connection in [c for c, since_s in self._opening.items() if since_s < now_s - CONNECT_S]:
            del self._opening[connection]
            connection.close()
            self._refuse(f"no connection within {CONNECT_S:g} s")


class Greeting:
    """One small request on a fresh connection, so that the server has it ready; its answer does not matter."""

    def __init__(self, pool: Pool, connection: Connection, on_end: Callable[[], None]) -> None:
        self._pool, self._connection, self._on_end = pool, connection, on_end
        self._reader = ResponseReader()

    def take(self, now_s: float, data: bytes) -> None:
        """Read to the end of the answer."""
        try:
            self._reader.feed(data)
        except ProtocolError:
            self._finish(reusable=False)
            return
        if self._reader.complete:
            self._finish(reusable=self._reader.reusable)

    def lost(self, now_s: float, reason: str) -> None:
        """This connection will be opened again."""
        self._on_end()

    def _finish(self, *, reusable: bool) -> None:
        self._pool.give_back(self._connection, reusable)
        self._on_end()


def open_ahead(loop: Loop, pool: Pool, width: int, greeting: bytes, limit_s: float) -> None:
    """Open `width` connections, each greeted while all others are held, so that each needs its own.

    Whatever is not ready after `limit_s` seconds is opened when a request needs it, where its trouble has a place.
    """
    held: list[Connection] = []
    answered = 0

    def ended() -> None:
        nonlocal answered
        answered += 1
        if answered == width:
            loop.stop()

    def opened(connection: Connection) -> None:
        held.append(connection)
        if len(held) == width:
            for each in tuple(held):
                each.send(greeting, Greeting(pool, each, ended))

    def refused(_: str) -> None:
        loop.stop()

    limit = loop.at(loop.clock() + limit_s, loop.stop)
    for _ in range(width):
        pool.take(opened, refused)
    loop.run()
    limit.cancel()
    pool.abandon()
    for connection in held:
        if pool.lent(connection):
            pool.give_back(connection, reusable=connection.sink is None)
