"""The journey as inline SVG: time to the right, ratio to stock upwards (log), the best so far as steps.

A fate is told by shape as well as by shade, and the same points stand in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from infra_agent.publish.report.charts import WIDTH, clip, line, svg, text
from infra_agent.publish.report.format import clean, duration, ratio
from infra_agent.publish.report.journey_rows import JourneyPoint

_LEFT, _RIGHT, _TOP, _BOTTOM = 64, WIDTH - 20, 20, 220
_LABELLED = 14


def journey(points: Sequence[JourneyPoint], name: str) -> Markup:
    """The drawing; empty without a point that has a ratio."""
    drawn = [(point, point.ratio) for point in points if point.ratio is not None]
    if not drawn:
        return Markup("")
    logs = [math.log(value) for _, value in drawn] + [math.log(point.best) for point, _ in drawn] + [0.0]
    low, high = min(logs) - 0.08, max(logs) + 0.08
    last = max(point.at_s for point in points) or 1.0

    def x(at_s: float) -> float:
        return _LEFT + at_s / last * (_RIGHT - _LEFT)

    def y(value: float) -> float:
        return _BOTTOM - (math.log(value) - low) / (high - low) * (_BOTTOM - _TOP)

    parts = [line(_LEFT, y(1.0), _RIGHT, y(1.0), "base"), text(_LEFT - 8, y(1.0) + 4, "x1.00", "m n", "end")]
    parts += _steps(points, x, y)
    for point, value in drawn:
        parts.append(_point(point, x(point.at_s), y(value), len(drawn) <= _LABELLED))
    parts.append(text(_LEFT, _BOTTOM + 18, "0 s", "m", "start"))
    parts.append(text(_RIGHT, _BOTTOM + 18, duration(last), "m", "end"))
    parts += _legend(_BOTTOM + 38)
    described = "; ".join(f"{p.candidate} {clean(p.title, 60)} {ratio(value)} {p.end}" for p, value in drawn)
    return svg(
        name, "Every candidate in time, as a ratio to stock, and the best so far", described, _BOTTOM + 50, parts
    )


def _steps(points: Sequence[JourneyPoint], x: object, y: object) -> list[Markup]:
    assert callable(x)
    assert callable(y)
    parts, at, best = [], 0.0, 1.0
    for point in points:
        if point.best != best:
            parts += [line(x(at), y(best), x(point.at_s), y(best), "bar kept")]
            parts += [line(x(point.at_s), y(best), x(point.at_s), y(point.best), "bar kept")]
            at, best = point.at_s, point.best
    end = max((point.at_s for point in points), default=0.0)
    return [*parts, line(x(at), y(best), x(end), y(best), "bar kept")]


def _point(point: JourneyPoint, at: float, height: float, labelled: bool) -> Markup:
    shape = _mark(point.end, at, height)
    label = text(at, height - 9, clip(point.candidate, 8), "m", "middle") if labelled else Markup("")
    told = f"{point.candidate} {point.title}: {point.end}"
    pattern = '<g data-event="{}"><title>{}</title>{}{}</g>'
    return Markup(pattern).format(point.event, clean(told, 200), shape, label)


def _mark(end: str, at: float, height: float) -> Markup:
    if end == "kept":
        return Markup('<circle class="dot kept" cx="{:.1f}" cy="{:.1f}" r="5"/>').format(at, height)
    if end in ("waiting", "approved"):
        pattern = '<rect class="dot" x="{:.1f}" y="{:.1f}" width="9" height="9"/>'
        return Markup(pattern).format(at - 4.5, height - 4.5)
    if end == "inconclusive":
        return Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(at, height)
    strokes = [
        line(at - 4, height - 4, at + 4, height + 4, "cross"),
        line(at - 4, height + 4, at + 4, height - 4, "cross"),
    ]
    return Markup("").join(strokes)


def _legend(height: float) -> list[Markup]:
    parts, at = [], float(_LEFT)
    for end, words in (
        ("kept", "kept"),
        ("waiting", "waits"),
        ("inconclusive", "cannot tell"),
        ("rejected", "rejected"),
    ):
        parts += [_mark(end, at, height), text(at + 10, height + 4, words, "m", "start")]
        at += 110.0
    return parts
