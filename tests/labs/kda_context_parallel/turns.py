"""Ranks of a context-parallel group inside one process: threads that take turns, so that exactly one runs at a time.

Covered: what upstream's host code asks of a group (its rank, gathering one tensor from all), in place of NCCL.
Not covered: overlap of communication with work, point-to-point messages, ranks that disagree on what they gather.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Abandoned(Exception):
    """Another rank failed; this one gives up at its next turn."""


class Turns(Generic[T]):
    """`run(work)` calls `work(rank)` for every rank; a rank that gathers waits until all others have come there."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self._changed = threading.Condition()
        self._turn = 0
        self._parts: list[Any] = []
        self._here = threading.local()
        self._failure: BaseException | None = None

    def rank(self) -> int:
        """The rank of the calling thread."""
        return int(self._here.rank)

    def gather(self, part: Any) -> list[Any]:
        """Everyone's part, in order of rank. Each rank must call this equally often."""
        self._parts.append(part)
        gathered = self._parts
        self._pass_on()
        self._wait()
        if self._parts is gathered:
            self._parts = []
        return gathered

    def run(self, work: Callable[[int], T]) -> list[T]:
        """What each rank returned; the first failure of any is raised."""
        results: list[Any] = [None] * self.ranks
        self._turn, self._parts, self._failure = 0, [], None

        def body(rank: int) -> None:
            self._here.rank = rank
            try:
                self._wait()
                results[rank] = work(rank)
            except Abandoned:
                pass
            except BaseException as error:
                self._failure = self._failure or error
            self._pass_on()

        threads = [threading.Thread(target=body, args=(rank,), name=f"rank {rank}") for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return results

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == self.rank() or self._failure is not None)
        if self._failure is not None:
            raise Abandoned

    def _pass_on(self) -> None:
        with self._changed:
            self._turn = (self._turn + 1) % self.ranks
            self._changed.notify_all()
