"""From files to observations, with the time that it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from probes.base import Observation
from probes.trace.profile.breakdown import break_down
from probes.trace.profile.columns import Trace
from probes.trace.profile.compare import compare
from probes.trace.profile.observe import observe_difference, observe_frames, observe_trace
from probes.trace.profile.read import read
from probes.trace.profile.source import UnreadableTrace

Clock = Callable[[], float]


def profile(path: Path, clock: Clock = time.perf_counter) -> Observation:
    """One file. UnreadableTrace when nothing of it can be used."""
    began_s = clock()
    found = read(path)
    if isinstance(found, Trace):
        broken = break_down(found)
        return observe_trace(broken, wall_s=clock() - began_s, source=str(path))
    return observe_frames(found, wall_s=clock() - began_s, source=str(path))


def profile_against(a: Path, b: Path, clock: Clock = time.perf_counter) -> Observation:
    """Two traces of the same work. UnreadableTrace when one cannot be used or has no time line."""
    began_s = clock()
    both = []
    for path in (a, b):
        found = read(path)
        if not isinstance(found, Trace):
            raise UnreadableTrace(f"{path} is a {found.form} profile: it has no time line to compare")
        both.append(found)
    found_difference = compare(both[0], both[1])
    return observe_difference(found_difference, wall_s=clock() - began_s, a=str(a), b=str(b))
