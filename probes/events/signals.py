"""Named facts with the trust they deserve: exact, derived, approximate or absent.

Covered: the type, reading with a default, merging sources so that the better one wins.
Not covered: where the facts come from (`window`, `host`, `log`, `client`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from probes.base import Json
from probes.events.vocabulary import Quality

Value = float | str | bool
ORDER: Mapping[Quality, int] = {"exact": 0, "derived": 1, "approximate": 2, "absent": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One fact. `source` says where it was read; an absent one has no value and says why."""

    name: str
    value: Value | None
    unit: str
    quality: Quality
    source: str

    def to_json(self) -> dict[str, Json]:
        """As plain JSON values."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "quality": self.quality,
            "source": self.source,
        }


class Signals:
    """Facts by name. Of two facts of one name the better one stays; the first stays when they are equally good."""

    def __init__(self, found: Iterable[Signal] = ()) -> None:
        self._by_name: dict[str, Signal] = {}
        for signal in found:
            self.add(signal)

    def add(self, signal: Signal) -> None:
        """Keep it, unless a better fact of this name is there."""
        known = self._by_name.get(signal.name)
        if known is None or ORDER[signal.quality] < ORDER[known.quality]:
            self._by_name[signal.name] = signal

    def __iter__(self) -> Iterator[Signal]:
        return iter(sorted(self._by_name.values(), key=lambda signal: signal.name))

    def get(self, name: str) -> Signal | None:
        """The fact, or None; an absent one is None too."""
        signal = self._by_name.get(name)
        return None if signal is None or signal.value is None else signal

    def number(self, name: str) -> float | None:
        """Its value as a number; None when absent or no number."""
        signal = self.get(name)
        if signal is None or isinstance(signal.value, str) or signal.value is None:
            return None
        return float(signal.value)

    def plain(self) -> dict[str, Value]:
        """Values only, as playbooks match on them."""
        return {signal.name: signal.value for signal in self if signal.value is not None}
