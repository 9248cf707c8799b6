"""Pays for a launch: what it may use is set aside before it starts, what it did use is charged when it is gone.

Covered: the launch itself, its bytes on disk, and GPU seconds where it may use a GPU.
Not covered: wall clock, which the budget counts by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra_agent.harness.budget.usage import LAUNCH_DISK_BYTES, bytes_of, gpus_used
from infra_agent.harness.mounts import gpu_nodes
from infra_agent.harness.session import Session
from infra_agent.ledger.kinds import SpendKind
from infra_agent.stack.engines.base import LaunchPlan

_LEAST_WALL_S = 1.0


@contextmanager
def paid_launch(session: Session, plan: LaunchPlan, device: object, files: Sequence[Path]) -> Iterator[None]:
    """Raises BudgetSpent before anything is started. `files`: what the launch leaves on disk, twice where copied."""
    gpus = gpus_used(gpu_nodes(), {**os.environ, **plan.env}, device)
    amounts: dict[SpendKind, float] = {"launches": 1, "disk_bytes": LAUNCH_DISK_BYTES}
    if gpus:
        amounts["gpu_s"] = gpus * expected_wall_s(session)
    started_s = session.clock()
    with session.budget.reserve_all(amounts, "another launch") as reservation:
        try:
            yield
        finally:
            used: dict[SpendKind, float] = {"launches": 1, "disk_bytes": bytes_of(files)}
            if gpus:
                used["gpu_s"] = gpus * (session.clock() - started_s)
            reservation.settle(used)


def expected_wall_s(session: Session) -> float:
    """Seconds that a whole launch took so far, from start to end, or the least that any takes."""
    walls = [ended.wall_s for ended in session.state.launches_ended.values() if ended.outcome == "stopped"]
    return max(_LEAST_WALL_S, sum(walls) / len(walls)) if walls else _LEAST_WALL_S
