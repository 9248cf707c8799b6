"""Profiles of Python frames: py-spy's speedscope and collapsed recordings, and cProfile's files.

A sampled profile says where threads were when somebody looked; a deterministic one counts calls and slows them down.
Covered: time of a frame itself and with what it called, by file and line, by thread.
Not covered: native frames' addresses without symbols, which stay as they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from probes.trace.profile.source import UnreadableTrace

MOST_ROWS = 40
LIMIT_S = 60.0
UNITS: Mapping[str, float] = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}


class Frame(NamedTuple):
    """One function as a profile names it; `line` 0 when unknown."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.line else f" ({self.file})" if self.file else ""
        return f"{self.name}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRow:
    """One frame. `own` and `total` are in the profile's unit; `calls` only where they were counted."""

    frame: Frame
    own: float
    total: float
    calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameProfile:
    """A profile. `unit` is seconds or samples; `threads`: each with its share of the total."""

    form: str
    unit: str
    total: float
    rows: tuple[FrameRow, ...]
    threads: Mapping[str, float]
    notes: tuple[str, ...] = ()


class _SpeedFrame(msgspec.Struct):
    name: str = ""
    file: str | None = None
    line: int | None = None


class _Move(msgspec.Struct):
    type: str
    frame: int
    at: float


class _Profile(msgspec.Struct):
    type: str = "sampled"
    name: str = ""
    unit: str = "none"
    samples: list[list[int]] = []
    weights: list[float] = []
    events: list[_Move] = []


class _Shared(msgspec.Struct):
    frames: list[_SpeedFrame] = []


class _Speedscope(msgspec.Struct):
    shared: _Shared
    profiles: list[_Profile]


def read_speedscope(text: bytes, path: Path, trouble: str = "") -> FrameProfile:
    """A speedscope file, sampled or evented."""
    try:
        document = msgspec.json.decode(text, type=_Speedscope, strict=False)
    except msgspec.DecodeError as error:
        hint = "stop py-spy with Ctrl-C, so that it can finish its file"
        raise UnreadableTrace(f"{path} is no complete speedscope file ({trouble or error}); {hint}") from error
    frames = [Frame(each.name, each.file or "", each.line or 0) for each in document.shared.frames]
    tally = _Tally()
    unit = next((each.unit for each in document.profiles if each.unit != "none"), "none")
    scale = UNITS.get(unit, 1.0)
    try:
        for profile in document.profiles:
            weighed = _evented(profile) if profile.type == "evented" else _sampled(profile)
            for stack, weight in weighed:
                tally.add(profile.name, [frames[number] for number in stack], weight * scale)
    except IndexError as error:
        raise UnreadableTrace(f"{path} names frames that it does not hold") from error
    return tally.profile("speedscope", "s" if unit in UNITS else "samples")


def _sampled(profile: _Profile) -> Iterable[tuple[Sequence[int], float]]:
    weights = profile.weights or [1.0] * len(profile.samples)
    return zip(profile.samples, weights, strict=False)


def _evented(profile: _Profile) -> Iterable[tuple[Sequence[int], float]]:
    stack: list[int] = []
    since = 0.0
    for move in profile.events:
        if stack and move.at > since:
            yield list(stack), move.at - since
        since = move.at
        if move.type == "O":
            stack.append(move.frame)
        elif stack:
            stack.pop()


def read_collapsed(text: bytes) -> FrameProfile:
    """Lines of `outer;inner count`, as `py-spy record --format raw` writes them."""
    tally = _Tally()
    bad = 0
    for line in text.decode("utf-8", "replace").splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and count.isdigit():
            frames = stack.split(";")
            thread = frames[0] if frames[0].startswith(("thread", "process")) else ""
            tally.add(thread, [_collapsed_frame(frame) for frame in frames], float(count))
        elif line.strip():
            bad += 1
    notes = (f"{bad} lines are no stacks and are left out",) if bad else ()
    return tally.profile("collapsed", "samples", notes)


def _collapsed_frame(text: str) -> Frame:
    name, _, place = text.partition(" (")
    file, _, line = place.rstrip(")").rpartition(":")
    return Frame(name, file or place.rstrip(")"), int(line) if line.isdigit() else 0)


class _Tally:
    def __init__(self) -> None:
        self._own: Counter[Frame] = Counter()
        self._total: Counter[Frame] = Counter()
        self._threads: defaultdict[str, float] = defaultdict(float)

    def add(self, thread: str, stack: Sequence[Frame], weight: float) -> None:
        """One stack, outermost first."""
        if not stack:
            return
        self._threads[thread or "main"] += weight
        self._own[stack[-1]] += weight  # type: ignore[assignment]
        for frame in set(stack):
            self._total[frame] += weight  # type: ignore[assignment]

    def profile(self, form: str, unit: str, notes: tuple[str, ...] = ()) -> FrameProfile:
        """What was collected. Own time first."""
        order = sorted(self._total, key=lambda frame: (-self._own[frame], -self._total[frame], frame))
        rows = [FrameRow(frame=frame, own=self._own[frame], total=self._total[frame]) for frame in order[:MOST_ROWS]]
        total = sum(self._threads.values())
        if not rows:
            notes = (*notes, "no samples: the program was idle, or was not running Python")
        shares = {name: weight / total for name, weight in self._threads.items()} if total else {}
        return FrameProfile(form=form, unit=unit, total=total, rows=tuple(rows), threads=shares, notes=notes)


_UNMARSHAL = """
import json, marshal, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
stats = marshal.load(sys.stdin.buffer)
rows = [[*key, value[1], value[2], value[3]] for key, value in stats.items()]
json.dump(rows, sys.stdout)
"""
"""Run in a process of its own, with 2 GiB: a damaged file can crash its reader, or make it ask for any memory."""


def read_pstats(text: bytes, path: Path) -> FrameProfile:
    """A file of `python -m cProfile -o`."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _UNMARSHAL], input=text, capture_output=True, timeout=LIMIT_S, check=True
        )
        raw: list[list[Any]] = json.loads(done.stdout)
        rows = [
            FrameRow(frame=Frame(str(name), str(file), int(line)), own=float(own), total=float(total), calls=int(calls))
            for file, line, name, calls, own, total in raw
        ]
    except (subprocess.SubprocessError, OSError, ValueError, TypeError) as error:
        hint = "it must come from this major version of Python, and be whole"
        raise UnreadableTrace(f"{path} cannot be read as a cProfile file: {hint}") from error
    rows.sort(key=lambda row: -row.own)
    return FrameProfile(
        form="cprofile",
        unit="s",
        total=sum(row.own for row in rows),
        rows=tuple(rows[:MOST_ROWS]),
        threads={"profiled thread": 1.0} if rows else {},
        notes=("cProfile slows calls down: small functions look larger than they are",),
    )
