"""What it is not, told by changing one thing at a time and putting it back: never by looking at a graph.

Each experiment has a control, an intervention and, where something was changed, the state restored. Ratios of the 90th
percentile of a heartbeat's lateness decide; what lies between the bounds is "cannot tell".
Covered: processors too busy, garbage collection, Python code that never lets go, locks of the program.
Not covered: drivers and network; they hold neither the heartbeat nor its control.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probes.trace.gil import control

SAME = 0.6
"""An intervention that leaves at least this share of the lateness did not remove its cause."""
GONE = 0.4
"""One that leaves at most this share did."""
SHORT_INTERVAL_S = 0.0002
LATE_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOut:
    """One alternative and its experiment. `ruled_out` is None when the figures cannot tell."""

    alternative: str
    experiment: str
    before_s: float
    after_s: float
    restored_s: float | None
    samples: int
    ruled_out: bool | None
    sentence: str


def run(agent: control.Agent, seconds: float, victim_waits_s: Sequence[float] = ()) -> list[RuleOut]:
    """All experiments on a launched program, `seconds` each. Raises AgentGone."""
    first = _inside(agent, seconds)
    process = control.outside_beat(seconds)
    try:
        beside = _inside(agent, seconds)
    finally:
        outside = control.heard(process)
    return [
        _processors(beside, outside),
        _collector(agent, first, seconds),
        _bytecode(agent, seconds),
        _locks(beside, outside, victim_waits_s),
    ]


def _inside(agent: control.Agent, seconds: float) -> list[float]:
    return [float(late) for late in agent.beat(seconds)["late_s"]]


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank; 0 for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def p90(values: Sequence[float]) -> float:
    """The 90th percentile."""
    return percentile(values, 0.9)


def _processors(inside: Sequence[float], outside: Sequence[float]) -> RuleOut:
    mine, control_s = p90(inside), p90(outside)
    ratio = control_s / mine if mine else 1.0
    told = None if mine < LATE_S else True if ratio <= GONE else False if ratio >= SAME else None
    return RuleOut(
        alternative="processors too busy", experiment="the same heartbeat in a process of its own, at the same time",
        before_s=mine, after_s=control_s, restored_s=None, samples=len(outside), ruled_out=told,
        sentence=f"late by {mine * 1e3:.1f} ms inside the program, {control_s * 1e3:.1f} ms beside it",
    )  # fmt: skip


def _collector(agent: control.Agent, before: Sequence[float], seconds: float) -> RuleOut:
    was_on = bool(agent.ask("gc", on=False)["before"])
    try:
        answer = agent.beat(seconds)
    finally:
        agent.ask("gc", on=was_on)
    restored = agent.beat(seconds)
    off = [float(late) for late in answer["late_s"]]
    pauses = [float(pause) for pause in restored["gc_pauses_s"]]
    return _changed(
        "garbage collection", "collector switched off, then on again", before, off, restored["late_s"],
        f"{len(pauses)} collections in {seconds:g} s, the longest {max(pauses, default=0.0) * 1e3:.1f} ms",
    )  # fmt: skip


def _bytecode(agent: control.Agent, seconds: float) -> RuleOut:
    before = _inside(agent, seconds)
    default = float(agent.ask("switch_interval", seconds=SHORT_INTERVAL_S)["before_s"])
    try:
        short = _inside(agent, seconds)
    finally:
        agent.ask("switch_interval", seconds=default)
    restored = _inside(agent, seconds)
    return _changed(
        "Python code that hogs the GIL", f"switch interval {default * 1e3:g} ms → {SHORT_INTERVAL_S * 1e3:g} ms → back",
        before, short, restored, "native code never looks at the interval",
    )  # fmt: skip


def _changed(
    alternative: str,
    experiment: str,
    before: Sequence[float],
    after: Sequence[float],
    restored: Sequence[float],
    note: str,
) -> RuleOut:
    """Removed by the change and back afterwards: it is the cause. As late as before: it is not."""
    base_s = max(min(p90(before), p90(restored)), 1e-9)
    changed_s = p90(after)
    ratio = changed_s / base_s
    told = None if base_s < LATE_S else True if ratio >= SAME else False if ratio <= GONE else None
    return RuleOut(
        alternative=alternative, experiment=experiment, before_s=p90(before), after_s=changed_s,
        restored_s=p90(restored), samples=len(after), ruled_out=told,
        sentence=f"late by {p90(before) * 1e3:.1f} → {changed_s * 1e3:.1f} → {p90(restored) * 1e3:.1f} ms; {note}",
    )  # fmt: skip


def _locks(fresh: Sequence[float], outside: Sequence[float], victim: Sequence[float]) -> RuleOut:
    """A new thread takes no lock of the program: if it is as late, no such lock makes it late."""
    late_s, control_s = p90(fresh), p90(outside)
    told = None if late_s < LATE_S else True if late_s >= control_s / GONE else None
    seen = f"; the victim waits up to {percentile(victim, 0.99) * 1e3:.1f} ms for the GIL itself" if victim else ""
    return RuleOut(
        alternative="locks of the program", experiment="a new thread that takes none of the program's locks",
        before_s=late_s, after_s=late_s, restored_s=None, samples=len(fresh), ruled_out=told,
        sentence=f"late by {late_s * 1e3:.1f} ms all the same{seen}",
    )  # fmt: skip
