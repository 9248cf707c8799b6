"""The corpus of small C++ files: what each should say, and how a scan compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from probes.static.gil_scan.scan import scan

CORPUS = Path(__file__).parent / "gil_corpus"
_MARK = re.compile(r"(?://|/\*) FAULT (\S+) (\S+)")
Mark = tuple[str, str, str, int]
"""File, exported name, fault, line."""


@dataclass(frozen=True, slots=True)
class Score:
    """Marks that a scan found, missed and made up."""

    found: frozenset[Mark]
    missed: frozenset[Mark]
    invented: frozenset[Mark]

    @property
    def precision(self) -> float:
        return len(self.found) / max(1, len(self.found) + len(self.invented))

    @property
    def recall(self) -> float:
        return len(self.found) / max(1, len(self.found) + len(self.missed))

    def __str__(self) -> str:
        return (
            f"precision {self.precision:.3f}, recall {self.recall:.3f} over {len(self.found) + len(self.missed)} faults"
        )


def files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (CORPUS / folder).iterdir())


def marks(path: Path) -> Iterator[Mark]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if match := _MARK.search(line):
            yield (path.name, match[1], match[2], number)


def score(paths: list[Path]) -> Score:
    expected = {mark for path in paths for mark in marks(path)}
    said = {
        (path.name, finding.exported, finding.fault.value, finding.at.line)
        for path in paths
        for finding in scan(path).findings
    }
    return Score(frozenset(said & expected), frozenset(expected - said), frozenset(said - expected))
