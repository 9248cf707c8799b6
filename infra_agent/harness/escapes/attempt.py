"""One attempt to get through a wall. A new one is a new entry in the ATTEMPTS of the module it belongs to.

An attempt returns what got through, in a few words, or nothing. An OSError is a wall that held. Any other exception
means that the attempt could not be made, which counts as a wall that did not hold.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Planted = Mapping[str, Any]
"""What the harness put outside to be found: see `harness.planted`."""


@dataclass(frozen=True)
class Attempt:
    """`tried` says how, for people. Of some attempts only the harness can see whether they arrived."""

    name: str
    tried: str
    run: Callable[[Planted], str | None]


def libc() -> ctypes.CDLL:
    """The C library, with errno kept."""
    return ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: Any) -> int:
    """A C function that returns -1 on failure. Raises OSError."""
    result = int(getattr(libc(), function)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def system_call(numbers: Mapping[str, int], *arguments: Any) -> int:
    """A system call by its number on this processor. Raises OSError, also where the number is not known."""
    number = numbers.get(os.uname().machine)
    if number is None:
        raise OSError(f"no number known for {os.uname().machine}")
    return call("syscall", ctypes.c_long(number), *arguments)


def in_child(action: Callable[[], str | None]) -> str | None:
    """Run an action that would change this process in a child; its answer."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, (action() or "").encode())
        except OSError:
            pass
        except Exception as error:
            os.write(write, f"could not be tried: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        found = answer.read().decode()
    os.waitpid(child, 0)
    return found or None
