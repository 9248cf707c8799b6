"""Call sites of `tl.dot`: which line of which kernel asked for what, with which shapes, how often.

Covered: kernels and the device functions they call; several dots in one line (told apart by their column).
Not covered: dots that Triton itself writes when it compiles.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_BETWEEN = ("triton.", "probes.numeric.triton.")
"""Modules between a kernel's line and the product."""
_POSITION = {"input_precision": 3, "allow_tf32": 4}
"""Where `tl.dot` takes them when they are not named."""


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """One call in the source: the file, and the line and column (from 0) where the call begins."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What the kernel wrote: `asked` is empty when it left the precision to Triton."""

    site: Site
    function: str
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """What one site did inside one kernel: what it asked for, what Triton made of it, how it was computed here.

    `shape` is (…, M, K, N).
    """

    site: Site
    function: str
    kernel: str
    dtype: str
    asked: str
    precision: str
    arithmetic: str
    shape: tuple[int, ...]

    @property
    def is_float32(self) -> bool:
        """Whether the precision has any effect."""
        return self.dtype == "fp32"


class DotLog:
    """All dots of a run, counted."""

    def __init__(self) -> None:
        self.counts: Counter[Dot] = Counter()

    def sites(self, *, float32_only: bool = False) -> list[Site]:
        """Every site seen, in the order of the source."""
        return sorted({dot.site for dot in self.counts if dot.is_float32 or not float32_only})

    def at(self, site: Site) -> list[Dot]:
        """What was done at one site."""
        return [dot for dot in self.counts if dot.site == site]

    def rows(self) -> list[dict[str, Any]]:
        """One JSON object per kind of dot, with its count."""
        found = sorted(self.counts.items(), key=lambda item: (item[0].site, item[0].kernel, item[0].shape))
        return [{**asdict(dot), "shape": list(dot.shape), "count": count} for dot, count in found]


def calling() -> Call:
    """The call of `tl.dot` in the kernel that is being interpreted."""
    frame: FrameType | None = sys._getframe(1)
    inner: FrameType | None = None
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        inner, frame = frame, frame.f_back
    if frame is None or inner is None:
        raise RuntimeError("a product that no kernel asked for")
    site = _site_in(frame.f_code, frame.f_lasti)
    return Call(site=site, function=frame.f_code.co_name, asked=_asked(inner.f_locals))


def _asked(called: Mapping[str, Any]) -> str:
    """The precision among the arguments of the interpreter's stand-in for `tl.dot`."""
    named, listed = called.get("kwargs") or {}, called.get("args") or ()
    found = {
        name: named.get(name, listed[position] if len(listed) > position else None)
        for name, position in _POSITION.items()
    }
    values = {name: getattr(value, "value", value) for name, value in found.items() if value is not None}
    if "input_precision" in values:
        return str(values["input_precision"])
    return f"allow_tf32={values['allow_tf32']}" if "allow_tf32" in values else ""


@lru_cache(maxsize=4096)
def _site_in(code: CodeType, instruction: int) -> Site:
    positions = list(code.co_positions())[instruction // 2]
    return Site(code.co_filename, positions[0] or code.co_firstlineno, positions[2] or 0)


def find(sites: Iterable[Site], place: str) -> list[Site]:
    """Sites at `FILE:LINE` or `FILE:LINE:COLUMN`; the file may be given by its last parts. ValueError if misspelt."""
    file, *numbers = place.split(":")
    if not 1 <= len(numbers) <= 2 or not all(number.isdigit() for number in numbers):
        raise ValueError(f"a site is written FILE:LINE or FILE:LINE:COLUMN, not {place!r}")
    wanted, line, column = Path(file).parts, int(numbers[0]), [int(number) for number in numbers[1:]]
    return [
        site
        for site in sites
        if Path(site.file).parts[-len(wanted) :] == wanted and site.line == line and column in ([], [site.column])
    ]
