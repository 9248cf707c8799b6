"""A wall-clock limit for a call that has none of its own.

Covered: calls that wait piece by piece, where each piece may come in time and the whole never ends (an answer that
trickles in, headers without end).
Not covered: stopping the call. Its thread is left to end by itself, so it is only for calls that end when the other
side of a connection does; at the end of the program they are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Call(Generic[T]):
    """The result, or the exception, of a call made elsewhere."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value.append(self._call())
        except BaseException as error:
            self._error = error

    def ending(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value[0]


def within(seconds: float, call: Callable[[], T]) -> T:
    """What `call` returns or raises; TimeoutError when it has done neither after `seconds`."""
    made = _Call(call)
    thread = threading.Thread(target=made.run, name="within", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no end after {seconds:g} s")
    return made.ending()
