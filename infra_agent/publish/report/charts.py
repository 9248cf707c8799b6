"""Inline SVG: all candidates as intervals, the blocks of the winner pair by pair, stock beside best.

Colours come from the page's style sheet, so light, dark and print follow it. Every drawing has a title, a
description and role=img; the same figures stand in a table beside it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from infra_agent.publish.report.format import amount, clean, estimate, ratio
from infra_agent.publish.report.rows import BeforeAfter, BlockRow

WIDTH = 760
_LEFT, _RIGHT = 236, 596
_TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0)
_LABEL_CHARS = 36
_ONE_BLOCK = 26
_CHARACTER_PX = 6.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One line of the forest chart. `style`: kept, other or screen. `source` is an attribute like data-event."""

    label: str
    ratio: float
    low: float | None
    high: float | None
    style: str
    source: Markup


def forest(rows: Sequence[Interval], target: float | None, name: str) -> Markup:
    """Ratios with intervals on a log axis; 1.0 is the base, the target is marked."""
    rows = [row for row in rows if row.ratio > 0]
    if not rows:
        return Markup("")
    ends = [end for row in rows for end in (row.ratio, row.low, row.high) if end is not None and end > 0]
    span = [math.log(value) for value in [*ends, 1.0, *([target] if target else [])]]
    low, high = min(span), max(span)
    pad = max(0.04, (high - low) * 0.06)
    low, high = low - pad, high + pad

    def x(value: float) -> float:
        return _LEFT + (math.log(value) - low) / (high - low) * (_RIGHT - _LEFT)

    top, bottom = 34, 34 + _ONE_BLOCK * len(rows)
    parts = [line(x(1.0), top - 4, x(1.0), bottom + 4, "base"), text(x(1.0), 12, "x1.00 base", "m", _anchor(x(1.0)))]
    if target:
        parts += [line(x(target), top - 4, x(target), bottom + 4, "target")]
        parts += [text(x(target), 26, f"target {ratio(target)}", "a", _anchor(x(target)))]
    parts += [text(position, bottom + 18, f"{tick:g}", "m", "middle") for tick, position in _ticks(x, low, high)]
    for index, row in enumerate(rows):
        parts.append(_interval(row, top + _ONE_BLOCK * index + _ONE_BLOCK / 2, x))
    described = "; ".join(f"{row.label} {estimate(row)}" for row in rows)
    return svg(name, "Ratio to the base, log scale", described, bottom + 26, parts)


def _ticks(x: object, low: float, high: float) -> list[tuple[float, float]]:
    """Ticks inside the range that do not crowd each other; 1.0 always stays."""
    assert callable(x)
    kept = [(1.0, x(1.0))]
    for tick in _TICKS:
        inside = low <= math.log(tick) <= high
        if inside and all(abs(x(tick) - position) >= 34 for _, position in kept):
            kept.append((tick, x(tick)))
    return kept


def _interval(row: Interval, y: float, x: object) -> Markup:
    assert callable(x)
    parts = [text(_LEFT - 10, y + 4, clip(row.label), "t", "end")]
    if row.low is not None and row.high is not None and row.low > 0:
        parts.append(line(x(row.low), y, x(row.high), y, f"bar {row.style}"))
        parts += [line(x(end), y - 4, x(end), y + 4, f"bar {row.style}") for end in (row.low, row.high)]
    parts.append(Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(row.style, x(row.ratio), y))
    parts.append(text(_RIGHT + 14, y + 4, estimate(row), "t n", "start"))
    return Markup("<g {}>{}</g>").format(row.source, Markup("").join(parts))


def blocks(rows: Sequence[BlockRow], unit: str, name: str, candidate: str) -> Markup:
    """Base and candidate of each valid block, joined: what the paired test sees."""
    valid = [(row, row.base_value, row.candidate_value) for row in rows if row.valid]
    pairs = [(row, base, other) for row, base, other in valid if base is not None and other is not None]
    if not pairs:
        return Markup("")
    values = [value for _, base, other in pairs for value in (base, other)]
    margin = (max(values) - min(values)) * 0.1 or abs(max(values)) * 0.1 or 1.0
    low, high = min(values) - margin, max(values) + margin
    left, right, top, bottom = 92, WIDTH - 16, 34, 210
    step = (right - left) / len(pairs)

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    parts = [_dot(left, 12, "other"), text(left + 10, 16, "base", "m", "start")]
    parts += [_dot(left + 60, 12, "kept"), text(left + 70, 16, clip(candidate, 60), "m", "start")]
    for value in _nice(low, high):
        parts += [line(left, y(value), right, y(value), "grid")]
        parts += [text(left - 8, y(value) + 4, amount(value, unit, high), "m n", "end")]
    for index, (row, base, other) in enumerate(pairs):
        at = left + step * (index + 0.5)
        order = "A B" if row.order and row.order[0] == "base" else "B A"
        drawn = [line(at, y(base), at, y(other), "bar kept"), _dot(at, y(base), "other"), _dot(at, y(other), "kept")]
        drawn += [text(at, bottom + 18, str(row.index), "m", "middle"), text(at, bottom + 32, order, "m", "middle")]
        parts.append(Markup('<g data-event="{}">{}</g>').format(row.event, Markup("").join(drawn)))
    parts.append(text(left - 8, bottom + 18, "block", "m", "end"))
    parts.append(text(left - 8, bottom + 32, "launch order", "m", "end"))
    described = "; ".join(f"block {row.index}: {base:.4g} and {other:.4g} {unit}" for row, base, other in pairs)
    return svg(name, f"{candidate} and its base, block by block", described, bottom + 42, parts)


def _nice(low: float, high: float) -> list[float]:
    """Three to six round values inside the range."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
    first = math.ceil(low / step)
    return [step * index for index in range(first, math.floor(high / step) + 1)]


def bars(rows: Sequence[BeforeAfter], name: str) -> Markup:
    """Stock and best for each metric; every metric has its own scale, starting at zero."""
    parts: list[Markup] = []
    for index, row in enumerate(rows):
        top = 10 + index * 46
        ends = [end for figure in (row.stock, row.best) for end in (figure.value, figure.high) if end is not None]
        largest = max(ends) or 1.0
        drawn = [text(_LEFT - 10, top + 20, clip(row.label), "t", "end")]
        for offset, figure, style, who in ((0, row.stock, "other", "stock"), (18, row.best, "kept", "best")):
            length, y = max(0.0, figure.value / largest) * (_RIGHT - _LEFT), top + offset
            rectangle = '<rect class="fill {}" x="{}" y="{}" width="{:.1f}" height="14"/>'
            drawn.append(Markup(rectangle).format(style, _LEFT, y, length))
            if figure.low is not None and figure.high is not None:
                ends_x = [_LEFT + max(0.0, end / largest) * (_RIGHT - _LEFT) for end in (figure.low, figure.high)]
                drawn.append(line(ends_x[0], y + 7, ends_x[1], y + 7, "whisker"))
            shown = f"{amount(figure.value, row.unit, row.stock.value)} {who}"
            drawn.append(text(_RIGHT + 14, y + 11, shown, "t n", "start"))
        parts.append(Markup('<g data-observation="{}">{}</g>').format(row.best.sources[0], Markup("").join(drawn)))
    if not parts:
        return Markup("")
    described = "; ".join(f"{row.label}: {row.stock.value:.4g}, then {row.best.value:.4g} {row.unit}" for row in rows)
    return svg(name, "Stock beside best", described, 10 + len(rows) * 46, parts)


def svg(name: str, title: str, described: str, height: float, parts: Sequence[Markup]) -> Markup:
    """A drawing with a name, a description and a role."""
    frame = (
        '<svg role="img" viewBox="0 0 {w} {h:.0f}" width="{w}" height="{h:.0f}" aria-labelledby="{n}-t {n}-d">'
        '<title id="{n}-t">{t}</title><desc id="{n}-d">{d}</desc>{p}</svg>'
    )
    body = Markup("").join(parts)
    return Markup(frame).format(w=WIDTH, h=height, n=name, t=clean(title), d=clean(described, 4000), p=body)


def text(x: float, y: float, words: str, style: str, anchor: str) -> Markup:
    """A label."""
    pattern = '<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>'
    return Markup(pattern).format(style, x, y, anchor, escape(clean(words)))


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """A stroke."""
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(style, x1, y1, x2, y2)


def _dot(x: float, y: float, style: str) -> Markup:
    return Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(style, x, y)


def _anchor(x: float) -> str:
    return "start" if x < _LEFT + 40 else "end" if x > _RIGHT - 40 else "middle"


def clip(words: str, longest: int = _LABEL_CHARS) -> str:
    """Text cut to the room of so many average characters: broad letters and signs take more of it."""
    words, room = clean(words), longest * _CHARACTER_PX
    for index, character in enumerate(words):
        room -= _width_px(character)
        if room < 0:
            return words[: max(0, index - 1)] + "…"
    return words


def _width_px(character: str) -> float:
    """About how wide a character is at 12 px, rather too wide than too narrow."""
    if unicodedata.east_asian_width(character) in "WF":
        return 12.5
    if character in "iljtf.,;:'|!()[] ":
        return 4.2
    return 9.0 if character.isupper() or character in "mwMW<>@%_&+=…" else 7.0
