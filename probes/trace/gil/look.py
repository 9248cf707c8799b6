"""Collects the signals, one after the other, and keeps what came when one of them cannot be had.

Covered: attaching to a running process, and a launched one with the agent in it.
Not covered: running in a timed window: the caller does that outside of one (`DISTURBS` says how much to fear).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from probes.trace.gil import control, kernel, ruleouts, spy, waits

DISTURBS = True
"""py-spy stops the program for each sample, uprobes trap at each take: no figure taken meanwhile counts."""
T = TypeVar("T")


@dataclass(slots=True)
class Signals:
    """Everything that was seen. `missing`: signal → why it could not be had."""

    pid: int
    seconds: float
    spied: spy.Spied | None = None
    gil_waits_s: dict[int, list[float]] = field(default_factory=dict)
    tasks: list[kernel.Task] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)
    late_s: list[float] = field(default_factory=list)
    outside_late_s: list[float] = field(default_factory=list)
    contention: float | None = None
    ruled: list[ruleouts.RuleOut] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    wall_s: float = 0.0

    def name(self, tid: int) -> str:
        """The thread's name in Python, else in the kernel."""
        kernel_name = next((task.name for task in self.tasks if task.tid == tid), "")
        return self.threads.get(tid) or ("MainThread" if tid == self.pid else kernel_name) or str(tid)


def look(pid: int, seconds: float, agent: control.Agent | None = None, *, with_ruleouts: bool = True) -> Signals:
    """All signals of a process. It raises nothing: what fails stands in `missing`."""
    began_s = time.perf_counter()
    found = Signals(pid=pid, seconds=seconds)
    if agent is not None:
        found.threads = _try(found, "thread names", agent.threads) or {}
    found.spied = _try(found, "py-spy", lambda: spy.record(pid, seconds))
    found.gil_waits_s = _try(found, "perf uprobe take_gil", lambda: waits.record(pid, seconds)) or {}
    found.tasks = _try(found, "wait channels", lambda: kernel.watch(pid, min(seconds, 2.0))) or []
    if agent is None:
        found.missing["heartbeat"] = found.missing["rule-outs"] = (
            "needs the agent: launch the program through this probe"
        )
    else:
        _inside(found, agent, seconds, with_ruleouts)
    found.wall_s = time.perf_counter() - began_s
    return found


def _inside(found: Signals, agent: control.Agent, seconds: float, with_ruleouts: bool) -> None:
    def beats() -> tuple[list[float], list[float]]:
        process = control.outside_beat(seconds)
        try:
            inside = [float(late) for late in agent.beat(seconds)["late_s"]]
        finally:
            outside = control.heard(process)
        return inside, outside

    found.late_s, found.outside_late_s = _try(found, "heartbeat", beats) or ([], [])
    knocked = _try(found, "gilknocker", lambda: agent.ask("contention", wait_s=seconds, seconds=seconds)) or {}
    if "missing" in knocked:
        found.missing["gilknocker"] = str(knocked["missing"])
    found.contention = knocked.get("contention")
    if with_ruleouts:
        victim = max(found.gil_waits_s.values(), key=sum, default=[])
        found.ruled = _try(found, "rule-outs", lambda: ruleouts.run(agent, seconds, victim)) or []


def _try(found: Signals, name: str, take: Callable[[], T]) -> T | None:
    try:
        return take()
    except (spy.CannotSpy, waits.CannotTrace, control.AgentGone, ProcessLookupError) as error:
        found.missing[name] = str(error)
    except (OSError, ValueError, TimeoutError) as error:
        found.missing[name] = f"{type(error).__name__}: {error}"
    except Exception as error:
        if "Timeout" not in type(error).__name__:
            raise
        found.missing[name] = "took too long"
    return None
