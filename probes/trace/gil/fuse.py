"""One observation out of all signals: who holds the GIL where, who waits for it how long, and how sure that is.

Confidence counts independent signals that agree, and is never "high" on a single one: samples of the holder (py-spy),
the victim's waits (uprobes), lateness against a separate process (heartbeat), contention (gilknocker), wait channels.
Covered: native holders, Python holders, nobody. Not covered: a cause; that takes an intervention (`probes.causes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from probes.base import Cost, Observation, Quantity, Rung, Verdict, Where
from probes.trace.gil.inside import AGENT
from probes.trace.gil.look import Signals
from probes.trace.gil.ruleouts import percentile
from probes.trace.gil.spy import Holder, holders

NAME = "trace.gil"
HELD = 0.4
"""Share of the samples with a holder that a place must have to be named."""
HELD_OF_TIME = 0.05
"""… and of all samples that were due. It is low because py-spy skips samples where processors are short."""
MIN_SAMPLES = 20
WAIT_S = 0.001
WAIT_SHARE = 0.1
"""A thread that waits for so much of its time is a victim. Most takes are free, so that a median says nothing."""
REAL_WAIT_S = 0.0001
"""A take of the GIL that is shorter found it free."""
LATE_RATIO = 2.5
FUTEX = 0.3
CONTENTION = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A thread that waits for the GIL. `takes_per_s` counts all takes, the other figures those that had to wait."""

    thread: str
    takes_per_s: float
    waits: int
    per_second: float
    p50_s: float
    p90_s: float
    p99_s: float
    share: float
    seen_by: str


def holder_of(signals: Signals) -> Holder | None:
    """The place that holds the GIL most, if it holds it for long; the agent's own thread does not count."""
    if signals.spied is None:
        return None
    found = [holder for holder in holders(signals.spied.stacks) if holder.thread != AGENT]
    chosen = found[0] if found else None
    if chosen is None or chosen.samples < MIN_SAMPLES or chosen.share < HELD:
        return None
    return chosen if chosen.samples / signals.spied.taken >= HELD_OF_TIME else None


def victim_of(signals: Signals, holder: Holder | None) -> Victim | None:
    """Who waits most, the holder's own thread and the agent left out."""
    found = []
    for tid, waits_s in signals.gil_waits_s.items():
        name = signals.name(tid)
        if waits_s and name != AGENT and (holder is None or name != holder.thread):
            found.append(_victim(name, waits_s, signals.seconds, "uprobes on take_gil"))
    chosen = max(found, key=lambda victim: victim.share, default=None)
    if chosen is not None and chosen.share >= WAIT_SHARE and chosen.p99_s >= WAIT_S:
        return chosen
    blocked = [task for task in signals.tasks if task.futex_share >= FUTEX and task.tid != signals.pid]
    named = [task for task in blocked if signals.threads.get(task.tid, AGENT) != AGENT]
    if chosen is None and named and signals.late_s:
        worst = max(named, key=lambda task: task.futex_share)
        return _victim(signals.name(worst.tid), signals.late_s, signals.seconds, "wait channel and heartbeat")
    return None


def _victim(name: str, waits_s: Sequence[float], seconds: float, seen_by: str) -> Victim:
    real = [wait_s for wait_s in waits_s if wait_s >= REAL_WAIT_S]
    p50, p90, p99 = (percentile(real, part) for part in (0.5, 0.9, 0.99))
    return Victim(
        thread=name, takes_per_s=len(waits_s) / seconds, waits=len(real), per_second=len(real) / seconds, p50_s=p50,
        p90_s=p90, p99_s=p99, share=sum(real) / seconds, seen_by=seen_by,
    )  # fmt: skip


def votes(signals: Signals, holder: Holder | None, victim: Victim | None) -> dict[str, bool]:
    """What each signal that could be had says to "one place holds the GIL and others wait for it"."""
    said: dict[str, bool] = {}
    if signals.spied is not None:
        said["py-spy"] = holder is not None
    if signals.gil_waits_s:
        said["take_gil"] = victim is not None and victim.seen_by.startswith("uprobes")
    if signals.late_s and signals.outside_late_s:
        inside, outside = percentile(signals.late_s, 0.9), percentile(signals.outside_late_s, 0.9)
        said["heartbeat"] = inside >= max(WAIT_S, LATE_RATIO * outside)
    if signals.contention is not None:
        said["gilknocker"] = signals.contention >= CONTENTION
    if signals.tasks and victim is not None:
        mine = [task for task in signals.tasks if signals.name(task.tid) == victim.thread]
        said["wait channel"] = any(task.futex_share >= FUTEX for task in mine)
    return said


def confidence_of(said: dict[str, bool]) -> str:
    """high: three or more for, at most one against; low: fewer than two for, or as many against."""
    yes, no = sum(said.values()), len(said) - sum(said.values())
    return "high" if yes >= 3 and no <= 1 else "medium" if yes >= 2 and yes > no else "low"


def observe(signals: Signals) -> Observation:
    """The observation. Inconclusive when neither holder nor waits could be looked at."""
    holder = holder_of(signals)
    victim = victim_of(signals, holder)
    said = votes(signals, holder, victim)
    looked = signals.spied is not None or bool(signals.gil_waits_s) or bool(signals.late_s)
    starved = holder is not None and victim is not None and sum(said.values()) >= 2
    verdict = Verdict.INCONCLUSIVE if not looked or (not starved and sum(said.values()) >= 2) else (
        Verdict.FAIL if starved else Verdict.PASS
    )  # fmt: skip
    return Observation(
        probe=NAME, rung=Rung.TRACE, verdict=verdict, summary=_sentence(signals, holder, victim, starved, looked),
        where=_where(holder, victim), cost=Cost(wall_s=signals.wall_s), quantities=_quantities(signals, victim),
        signals=_facts(holder, victim, starved, said, signals),
        detail=_detail(signals, holder, victim, said),
    )  # fmt: skip


def _where(holder: Holder | None, victim: Victim | None) -> Where:
    if holder is None and victim is None:
        return Where(whole_system=True)
    return Where(
        file=holder.file if holder else None, line=holder.line if holder else None,
        thread=victim.thread if victim else holder.thread if holder else None,
    )  # fmt: skip


def _sentence(signals: Signals, holder: Holder | None, victim: Victim | None, starved: bool, looked: bool) -> str:
    if not looked:
        return "cannot tell: " + "; ".join(f"{name}: {why}" for name, why in signals.missing.items())
    if holder is None or victim is None or not starved:
        part = f"{holder.function} holds the GIL most" if holder else "no place holds the GIL for long"
        return f"{part}; {f'{victim.thread} waits for it' if victim else 'nobody is seen to wait for it'}"
    return (
        f"{holder.thread} holds the GIL in {place(holder)} ({holder.share:.0%} of held samples); {victim.thread} waits "
        f"{victim.per_second:.0f} times a second ({victim.share:.0%} of its time), p50 {victim.p50_s * 1e3:.1f} ms, "
        f"p99 {victim.p99_s * 1e3:.1f} ms"
    )


def place(holder: Holder) -> str:
    """Function and line as people write it."""
    file = Path(holder.file).name
    return (
        f"{holder.function} ({file}:{holder.line})" if holder.line else f"{holder.function} ({file}, no line: stripped)"
    )


def _quantities(signals: Signals, victim: Victim | None) -> tuple[Quantity, ...]:
    found = []
    if victim is not None:
        n = victim.waits
        found += [
            Quantity(name="gil_takes_per_s", value=victim.takes_per_s, unit="1/s"),
            Quantity(name="gil_waits_per_s", value=victim.per_second, unit="1/s", n=n),
            Quantity(name="gil_wait_p50_s", value=victim.p50_s, unit="s", n=n),
            Quantity(name="gil_wait_p99_s", value=victim.p99_s, unit="s", n=n),
            Quantity(name="gil_wait_share", value=victim.share, unit="1", n=n),
        ]
    if signals.late_s:
        found.append(Quantity(name="heartbeat_late_p90_s", value=percentile(signals.late_s, 0.9), unit="s",
                              n=len(signals.late_s)))  # fmt: skip
    if signals.contention is not None:
        found.append(Quantity(name="gil_contention", value=signals.contention, unit="1"))
    return tuple(found)


def _facts(
    holder: Holder | None, victim: Victim | None, starved: bool, said: dict[str, bool], signals: Signals
) -> dict[str, float | str | bool]:
    facts: dict[str, float | str | bool] = {"gil_starved": starved, "confidence": confidence_of(said)}
    if holder is not None:
        facts |= {"gil_holder": holder.function, "gil_holder_native": holder.native, "gil_holder_thread": holder.thread}
    if victim is not None:
        facts["gil_victim"] = victim.thread
    for ruled in signals.ruled:
        key = ruled.alternative.replace(" ", "_").lower()
        facts[f"ruled_out.{key}"] = "yes" if ruled.ruled_out else "cannot tell" if ruled.ruled_out is None else "no"
    return facts


def _detail(signals: Signals, holder: Holder | None, victim: Victim | None, said: dict[str, bool]) -> dict[str, Any]:
    return {
        "holder": asdict(holder) if holder else None,
        "victim": asdict(victim) if victim else None,
        "signals_agree": said,
        "rule_outs": [asdict(ruled) for ruled in signals.ruled],
        "not_available": signals.missing,
        "heartbeat": {
            "inside_p90_s": percentile(signals.late_s, 0.9), "outside_p90_s": percentile(signals.outside_late_s, 0.9),
            "beats": len(signals.late_s),
        } if signals.late_s else None,
    }  # fmt: skip
