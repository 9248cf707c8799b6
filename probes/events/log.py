"""An engine's log as evidence: known lines become hypotheses with their text and number, unknown warnings are kept.

Covered: logs of any size (the last 64 MiB), a window's own part, terminal colours, other languages, files that are no
text, statistics that vLLM and SGLang print. Not covered: JSON logs whose message is escaped twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from probes.base import Json
from probes.clean import one_line
from probes.events.limits import Limit
from probes.events.log_rules import LEVEL, RULES, SGLANG_STATS, VLLM_STATS, Rule
from probes.events.signals import Signal

LARGEST = 64 * 2**20
LONGEST = 400
MOST_UNREAD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """What one kind of line would mean if it were true. `times`: how often it came; text and line are of the last."""

    name: str
    means: str
    experiment: str
    limit: Limit | None
    line: int
    text: str
    times: int
    in_window: bool

    def to_json(self) -> dict[str, Json]:
        """As plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """What a log says. `unread`: warnings that no rule knows. `skipped_bytes`: the part before what was read."""

    path: str
    lines: int
    hypotheses: tuple[Hypothesis, ...] = ()
    unread: tuple[tuple[int, str], ...] = ()
    signals: tuple[Signal, ...] = ()
    numbered: tuple[tuple[int, str], ...] = ()
    skipped_bytes: int = 0
    problem: str = ""


def size_of(path: Path) -> int:
    """Where the log ends now: what is written later belongs to the window."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read(path: Path, window_from: int = 0) -> LogReading:
    """Read a log. `window_from`: the byte where the measured window began. Never raises for what a log holds."""
    try:
        size = path.stat().st_size
        if window_from > size:  # it was rotated or begun anew
            window_from = 0
        start = max(0, size - LARGEST)
        with path.open("rb") as file:
            file.seek(start)
            raw = file.read(LARGEST)
    except OSError as error:
        return LogReading(path=str(path), lines=0, problem=f"cannot read the log: {error}")
    if b"\0" in raw[:4096]:
        return LogReading(path=str(path), lines=0, problem="the file is no text")
    numbered, first_in_window = _lines(raw, window_from - start)
    return _reading(path, numbered, first_in_window, start)


def _lines(raw: bytes, window_at: int) -> tuple[tuple[tuple[int, str], ...], int]:
    """Lines with their numbers, and the number of the first line of the window."""
    texts = raw.decode("utf-8", errors="replace").split("\n")
    if texts and not texts[-1]:
        texts.pop()
    before = raw[: max(0, window_at)].count(b"\n")
    return tuple((n, one_line(text, LONGEST)) for n, text in enumerate(texts, 1)), before + 1


def _reading(path: Path, numbered: Sequence[tuple[int, str]], first: int, skipped: int) -> LogReading:
    hits: dict[str, list[tuple[int, str]]] = {}
    unread: list[tuple[int, str]] = []
    for number, text in numbered:
        rule = _rule_of(text)
        if rule is not None:
            hits.setdefault(rule.name, []).append((number, text))
        elif LEVEL.search(text):
            unread.append((number, text))
    rules = {rule.name: rule for rule in RULES}
    window = [(number, text) for number, text in numbered if number >= first]
    compiled = sum(number >= first for number, _ in hits.get("recompilation", ()))
    signals = [*_statistics(window or numbered)]
    if numbered:
        signals.append(
            Signal(name="recompilations", value=compiled, unit="1", quality="derived", source="lines of the log")
        )
    return LogReading(
        path=str(path),
        lines=len(numbered),
        hypotheses=tuple(_hypothesis(rules[name], found, first) for name, found in hits.items()),
        unread=tuple(_distinct(unread))[-MOST_UNREAD:],
        signals=tuple(signals),
        numbered=tuple(numbered),
        skipped_bytes=skipped,
    )


def _rule_of(text: str) -> Rule | None:
    return next((rule for rule in RULES if rule.regex.search(text)), None)


def _hypothesis(rule: Rule, found: Sequence[tuple[int, str]], first: int) -> Hypothesis:
    number, text = found[-1]
    return Hypothesis(
        name=rule.name,
        means=rule.means,
        experiment=rule.experiment,
        limit=rule.limit,
        line=number,
        text=text,
        times=len(found),
        in_window=number >= first,
    )


def _distinct(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The last of each text; digits do not make a text another one."""
    kept: dict[str, tuple[int, str]] = {}
    for number, text in lines:
        kept["".join(char for char in text if not char.isdigit())] = (number, text)
    return sorted(kept.values())


def _statistics(numbered: Sequence[tuple[int, str]]) -> list[Signal]:
    """Gauges from the lines in which vLLM and SGLang print theirs every few seconds."""
    found = [match for _, text in numbered if (match := VLLM_STATS.search(text) or SGLANG_STATS.search(text))]
    if not found:
        return []
    source = f"{len(found)} statistics lines of the log"
    percent = 100.0 if found[0].re is VLLM_STATS else 1.0
    running = [float(match["running"]) for match in found]
    waiting = [float(match["waiting"]) for match in found]
    kv = [float(match["kv"]) / percent for match in found]
    values = {
        "running_mean": (fmean(running), "requests"),
        "running_max": (max(running), "requests"),
        "running_share": (fmean(each > 0 for each in running), "1"),
        "waiting_mean": (fmean(waiting), "requests"),
        "waiting_share": (fmean(each > 0 for each in waiting), "1"),
        "kv_used_max": (max(kv), "1"),
    }
    return [
        Signal(name=name, value=value, unit=unit, quality="approximate", source=source)
        for name, (value, unit) in values.items()
    ]
