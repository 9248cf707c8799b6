"""Reads a Prometheus page without trusting it: what cannot be read is kept as a problem, the rest is used.

Covered: pages without HELP and TYPE lines, single bad lines, OpenMetrics exemplars, names that an exporter rewrote
(`vllm_…`, `ray_vllm_…`), several engines behind one page, pages that are not metrics at all.
Not covered: the protobuf exposition format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

MOST_PROBLEMS = 20
_PREFIXES = ("vllm", "sglang", "llamacpp")
_REWRITTEN = re.compile(rf"^(?:ray_)?({'|'.join(_PREFIXES)})[_:](?=[a-zA-Z])")
_EXEMPLAR = re.compile(r"\s#\s\{[^\n]*$")


@dataclass(frozen=True, slots=True)
class Series:
    """One time series: its name and labels in a fixed order."""

    name: str
    labels: tuple[tuple[str, str], ...]

    def label(self, name: str) -> str | None:
        """The value of a label, or None."""
        return next((value for key, value in self.labels if key == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One reading of `/metrics`. `problems`: lines that were not understood, with their number and the reason."""

    values: Mapping[Series, float]
    problems: tuple[str, ...] = ()
    described: bool = True
    """Whether the page said of any metric what type it has."""

    def named(self, name: str) -> dict[Series, float]:
        """All series of a name. A counter is found with and without its `_total`."""
        names = {name, name.removesuffix("_total"), f"{name}_total"}
        return {series: value for series, value in self.values.items() if series.name in names}

    def names(self) -> frozenset[str]:
        """All metric names."""
        return frozenset(series.name for series in self.values)


def parse(text: str) -> Page:
    """The page's series. Never raises: a page of nonsense has no values and says why."""
    described = "# TYPE " in text
    try:
        return _page(_samples(text), described, ())
    except (ValueError, TypeError, IndexError, KeyError):
        return _line_by_line(text, described)


def _line_by_line(text: str, described: bool) -> Page:
    """Each line on its own, after the page as a whole could not be read."""
    found: list[Sample] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = _EXEMPLAR.sub("", line).strip()
        if not bare or bare.startswith("#"):
            continue
        try:
            found += _samples(bare + "\n")
        except (ValueError, TypeError, IndexError, KeyError) as error:
            problems.append(f"line {number} is not a metric ({error}): {line.strip()[:80]}")
    left = len(problems) - MOST_PROBLEMS
    shown = (*problems[:MOST_PROBLEMS], *((f"{left} more lines are not metrics",) if left > 0 else ()))
    return _page(found, described, shown)


def _samples(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def _page(samples: list[Sample], described: bool, problems: tuple[str, ...]) -> Page:
    values: dict[Series, float] = {}
    for sample in samples:
        if math.isnan(sample.value):
            continue
        name = _REWRITTEN.sub(lambda match: f"{match[1]}:", sample.name)
        values[Series(name, tuple(sorted(sample.labels.items())))] = float(sample.value)
    return Page(values=values, problems=problems, described=described)


def buckets(page: Page, name: str) -> Iterator[tuple[float, float]]:
    """Cumulative counts of a histogram by upper bound, summed over its labels."""
    sums: dict[float, float] = {}
    for series, value in page.values.items():
        bound = series.label("le") if series.name == f"{name}_bucket" else None
        if bound is None:
            continue
        try:
            sums[float(bound)] = sums.get(float(bound), 0.0) + value
        except ValueError:
            continue
    yield from sorted(sums.items())
