"""After a crash: what became of launches that were begun and whose end is not in the ledger.

A launch without an end is *unknown*: its engine normally died with the harness (the keeper's work), but a keeper that
was itself killed leaves it running, on its port and on the cores that are measured. So it is looked for, and ended.

Covered: processes that work in a launch's scratch directory or call it home, whatever their parent is now.
Not covered: a process that has changed both, and processes of another user.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil

from infra_agent.harness import tree
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.ledger.intents import open_intents
from infra_agent.ledger.state import RunState

SCRATCH = "scratch"
_GONE_S = 5.0


def close_open_launches(session: Session) -> None:
    """Record each launch that has no end as interrupted, once nothing of it lives any more."""
    state = session.state
    intents = [at.data for at in open_intents(state)]
    for launch_id in [intent.id for intent in intents if isinstance(intent, k.LaunchStarted)]:
        ended = end_survivors(session.run_dir / SCRATCH / launch_id)
        found = f"; {ended} of its processes were still there and were ended" if ended else ""
        session.ledger.append(
            k.LaunchEnded(
                id=launch_id, outcome="interrupted", ready_s=None, wall_s=_seen_for_s(state, launch_id),
                message=f"the harness ended before it did{found}",
            )
        )  # fmt: skip
        session.narrator.line("Recovered", f"launch {launch_id} was cut off{found}")


def end_survivors(scratch: Path) -> int:
    """Kill every process that a launch with this scratch directory left behind; how many there were."""
    survivors = list(_living_in(scratch.resolve()))
    tree.kill(survivors)
    tree.wait_gone(survivors, _GONE_S)
    return len(survivors)


def _living_in(scratch: Path) -> Iterator[psutil.Process]:
    me = os.getpid()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != me and _is_below(process, scratch):
                yield process


def _is_below(process: psutil.Process, scratch: Path) -> bool:
    """Its working directory or home is the scratch directory (seen from outside also when it runs in a sandbox)."""
    places = [process.environ().get("HOME", "")]
    with contextlib.suppress(psutil.Error):
        places.append(process.cwd())
    return any(place and Path(place).is_relative_to(scratch) for place in places)


def _seen_for_s(state: RunState, launch_id: str) -> float:
    """How long it ran for certain: until the last event that its session stored."""
    begun = last = None
    for at in state.events:
        if isinstance(at.data, k.LaunchStarted) and at.data.id == launch_id:
            begun = at.ts
        elif begun is not None and isinstance(at.data, k.RunResumed | k.Recovered):
            break
        last = at.ts
    if begun is None or last is None:
        return 0.0
    return max(0.0, (datetime.fromisoformat(last) - datetime.fromisoformat(begun)).total_seconds())
