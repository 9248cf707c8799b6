"""Figures and foreign text as people read them: the same words in HTML and on the terminal.

Covered: ratios, intervals, amounts with a unit, durations, and text made inert (no ANSI, control or bidi characters).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from infra_agent.publish.report.rows import ChangeRow
from probes.clean import strip

_LONGEST = 2000
SMALL = 0.001
"""Plain numbers below it (errors, mostly) are shown with an exponent."""


class _Ratio(Protocol):
    @property
    def ratio(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def clean(text: object, longest: int = _LONGEST) -> str:
    """Foreign text without escape sequences, control and direction characters, cut at `longest` characters."""
    plain = strip(str(text))
    return plain if len(plain) <= longest else f"{plain[:longest]} … ({len(plain) - longest} more characters)"


def decimals(low: float | None, high: float | None) -> int:
    """Decimals of a ratio and its interval: a narrow interval, or a ratio alone near 1, needs three."""
    return 3 if low is not None and high is not None and abs(high - low) < 0.1 else 2


def ratio(value: float, places: int = 2) -> str:
    """`x2.94`."""
    return f"x{_ratio(value, places)}"


def _ratio(value: float, places: int) -> str:
    if 0 < abs(value) < 10**-places:
        return f"{value:.2g}"
    return f"{value:.{places}f}" if abs(value) < 100 else f"{value:.0f}"


def between(low: float | None, high: float | None) -> str:
    """`[2.83, 3.05]` of ratios; empty without an interval."""
    if low is None and high is None:
        return ""
    places = decimals(low, high)
    ends = ["…" if end is None else _ratio(end, places) for end in (low, high)]
    return f"[{ends[0]}, {ends[1]}]"


def estimate(row: _Ratio | None) -> str:
    """`x2.94 [2.83, 3.05]`."""
    if row is None:
        return "not measured"
    return f"{ratio(row.ratio, decimals(row.low, row.high))} {between(row.low, row.high)}".strip()


def shell(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """A command line that can be pasted."""
    words = [shlex.quote(f"{name}={value}") for name, value in sorted(env.items())]
    return " ".join((["env", *words] if words else []) + [shlex.quote(word) for word in argv])


def probability(value: float | None) -> str:
    """A p value."""
    if value is None:
        return "–"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def scale(unit: str, reference: float) -> tuple[float, str, int]:
    """Factor, unit and decimals in which amounts around `reference` are shown: one choice for a whole row."""
    size = abs(reference)
    if unit == "s":
        return (1000.0, "ms", 1 if size < 0.1 else 0) if size < 1 else (1.0, "s", 2 if size < 100 else 1)
    if unit in ("B", "bytes", "byte"):
        return (2.0**-30, "GiB", 2) if size >= 2**30 else (2.0**-20, "MiB", 1)
    decimals = 0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 else 4
    return 1.0, "" if unit == "1" else unit, decimals


def amount(value: float, unit: str, reference: float | None = None) -> str:
    """`25.3 tok/s`."""
    factor, shown, decimals = scale(unit, value if reference is None else reference)
    return f"{number(value * factor, decimals)} {shown}".strip()


def number(value: float, decimals: int) -> str:
    """A number in so many decimals, or with an exponent where they would show nothing of it."""
    return f"{value:.3g}" if 0 < abs(value) < SMALL else f"{value:.{decimals}f}"


def duration(seconds: float) -> str:
    """`48 s`, `3 min 10 s`, `1 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def spending(kind: str) -> str:
    """A kind of spending in words."""
    return {"usd": "money", "disk_bytes": "disk", "gpu_s": "GPU time"}.get(kind, kind)


def spent(kind: str, value: float) -> str:
    """An amount of one kind of spending, with its unit."""
    if kind == "disk_bytes":
        return amount(value, "B")
    if kind == "gpu_s":
        return duration(value)
    return f"{value:.4f} USD" if kind == "usd" else f"{value:.0f}"


def percent_above(value: float) -> str:
    """A ratio as the gain it stands for: 1.023 is `2.3 %`."""
    return f"{(value - 1) * 100:.1f} %"


def change(row: ChangeRow) -> str:
    """`--continuous-batching: not set → true`."""
    before = "not set" if row.before is None else setting(row.before)
    return f"{row.flag}: {before} → {setting(row.value)}"


def setting(value: object) -> str:
    """A parameter's value as infra-agent.toml writes it, without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def where(place: Mapping[str, Any]) -> str:
    """The place of an observation in words."""
    words = []
    for key, value in place.items():
        if key == "whole_system":
            words.append("whole system")
        elif key == "interval_s" and isinstance(value, Sequence) and len(value) == 2:
            words.append(f"{value[0]}–{value[1]} s")
        elif key == "line":
            words.append(f"line {value}")
        else:
            words.append(str(value))
    return " · ".join(words)
