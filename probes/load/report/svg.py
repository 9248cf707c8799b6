"""Inline SVG charts: a distribution, a course over time, figures against a rate.

Colours come from the page's style sheet, so light, dark and print follow it. Every drawing has a title, a description
and role=img; the same figures stand in a table beside it. Covered: line, step and dot charts on linear axes.
Not covered: interaction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 62, 744, 24, 200
KEY_GAP, KEY_CHAR = 18, 6.5
MOST_POINTS = 1500
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a chart. `style`: one, two or three. `dots`: mark each point."""

    label: str
    points: Sequence[Point]
    style: str = "one"
    dots: bool = False


def chart(title: str, x_label: str, y_label: str, series: Sequence[Series], described: str) -> Markup:
    """Lines on common linear axes from zero; an empty drawing when there is no point."""
    shown = [each for each in series if each.points]
    if not shown:
        return Markup("")
    x_top = _top(max(x for each in shown for x, _ in each.points))
    y_top = _top(max(y for each in shown for _, y in each.points))
    parts = [*_axes(x_top, y_top, x_label, y_label)]
    right = float(RIGHT)
    for each in reversed(shown):
        parts.append(_line(each, x_top, y_top))
        parts.append(_text(right, TOP - 8, each.label, f"key {each.style}", "end"))
        right -= KEY_GAP + KEY_CHAR * len(each.label)
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title><desc>{}</desc>').format(
        WIDTH, HEIGHT, title, title, described
    )
    return head + Markup("").join(parts) + Markup("</svg>")


def distribution(values: Sequence[float], scale: float = 1e3) -> list[Point]:
    """The share of values that are at most x, as steps in percent."""
    ordered = sorted(values)
    count = len(ordered)
    points: list[Point] = []
    for index, value in enumerate(ordered):
        points += [(value * scale, 100 * index / count), (value * scale, 100 * (index + 1) / count)]
    return thin(points)


def thin(points: Sequence[Point]) -> list[Point]:
    """No more points than can be seen; the last one stays."""
    step = max(1, math.ceil(len(points) / MOST_POINTS))
    kept = list(points[::step])
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def _axes(x_top: float, y_top: float, x_label: str, y_label: str) -> list[Markup]:
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = LEFT + share * (RIGHT - LEFT), BOTTOM - share * (BOTTOM - TOP)
        parts.append(_rule(LEFT, y, RIGHT, y))
        parts.append(_text(LEFT - 8, y + 4, _number(share * y_top), "m", "end"))
        parts.append(_text(x, BOTTOM + 18, _number(share * x_top), "m", "middle"))
    parts.append(_text((LEFT + RIGHT) / 2, HEIGHT - 6, x_label, "m", "middle"))
    parts.append(_text(LEFT, TOP - 8, y_label, "m", "start"))
    return parts


def _line(series: Series, x_top: float, y_top: float) -> Markup:
    places = [
        (LEFT + x / x_top * (RIGHT - LEFT), BOTTOM - y / y_top * (BOTTOM - TOP)) for x, y in thin(list(series.points))
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    drawn = Markup('<polyline class="line {}" points="{}"/>').format(series.style, path)
    dots = [Markup('<circle class="dot {}" cx="{}" cy="{}" r="3.5"/>').format(series.style, f"{x:.1f}", f"{y:.1f}")
            for x, y in places] if series.dots else []  # fmt: skip
    return drawn + Markup("").join(dots)


def _rule(x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup(f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')


def _text(x: float, y: float, text: str, style: str, anchor: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        style, f"{x:.1f}", f"{y:.1f}", anchor, escape(text)
    )


def _top(value: float) -> float:
    """The end of an axis: the next round number."""
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return next(float(step * power) for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.9999)


def _number(value: float) -> str:
    return f"{value:.4g}"
