"""A sequence and a mapping that grow without being copied: each state of a run holds its own, all share one store.

Covered: what `tuple` and `dict` offer for reading. An older one never sees what a newer one has added; two that grow
from the same point part ways, at the price of one copy. Not covered: changing or removing what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class History(Sequence[T], Generic[T]):
    """The first `len(self)` items of a list that only ever grows."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)

    def with_item(self, item: T) -> History[T]:
        """This history and one item more."""
        grown: History[T] = History.__new__(History)
        # Somebody else has grown the list from here: what follows there is another history.
        grown._items = self._items if len(self._items) == self._length else self._items[: self._length]
        grown._items.append(item)
        grown._length = self._length + 1
        return grown

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[: self._length][index])
        return self._items[range(self._length)[index]]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, History | tuple):
            return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class Register(Mapping[str, T], Generic[T]):
    """The first `len(self)` entries, in the order in which they came, of a dictionary that only ever grows."""

    __slots__ = ("_entries", "_length")

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, T]] = {}
        self._length = 0

    def with_item(self, key: str, value: T) -> Register[T]:
        """These entries and one more, under a key that is not taken."""
        if key in self:
            raise KeyError(f"{key!r} is taken")
        grown: Register[T] = Register.__new__(Register)
        shared = len(self._entries) == self._length
        grown._entries = self._entries if shared else dict(islice(self._entries.items(), self._length))
        grown._entries[key] = (self._length, value)
        grown._length = self._length + 1
        return grown

    def __getitem__(self, key: str) -> T:
        index, value = self._entries[key]
        if index >= self._length:
            raise KeyError(key)
        return value

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return islice(self._entries, self._length)

    def __repr__(self) -> str:
        return repr(dict(self))
