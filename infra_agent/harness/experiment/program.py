"""One program of the stack behind the walls, from its start to its end: a run of an experiment, or a probe of its own.

Covered: a deadline, bounded output, the whole process tree gone, limits, death with the last lines of its output, a
budget that ends first, nothing but a loopback interface for a network.
Not covered: what it writes (`document`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from infra_agent.errors import BudgetSpent
from infra_agent.harness import reporter
from infra_agent.harness.disturbance import Disturbance, Watch
from infra_agent.harness.environment import child_env, named_paths
from infra_agent.harness.launch_errors import LaunchFailed, describe_exit, explain
from infra_agent.harness.limits import limits_for
from infra_agent.harness.overlays import Overlays
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.session import Session
from infra_agent.redact.known import flag_values, secret_values

SHOWN_LINES = 12
_EXPLAINED_LINES = 200
_POLL_S = 0.02
_SLOWEST_POLL_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start, and where. `deadline`: the setting of the stack file that allows more than `timeout_s`."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    scratch: Path
    log: Path
    overlays: Overlays
    timeout_s: float
    deadline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A program that ended by itself with code 0. `wall_s`: from its start to its end."""

    wall_s: float
    memory_bytes: int
    others: Disturbance
    lines: tuple[str, ...]


def run_program(session: Session, program: Program, *, noting: bool = False) -> Ended:
    """Run it once. Raises LaunchFailed for any other end than code 0, BudgetSpent.

    `noting`: every Python process of it notes which lines of patched files it executes; such a run is not timed.
    """
    started_s = session.clock()
    with ExitStack() as cleanup:
        process = _start(session, program, noting, cleanup)
        cleanup.callback(process.stop, session.stack.limits.stop_timeout_s)
        watch = Watch(process.own_pids())
        memory_bytes = _wait(session, program, process, started_s)
        wall_s = session.clock() - started_s
        others = watch.seen(process.own_pids())
    failure = _failure(session, program, process)
    if failure is not None:
        raise failure
    return Ended(wall_s=wall_s, memory_bytes=memory_bytes, others=others, lines=process.tail(SHOWN_LINES))


def _start(session: Session, program: Program, noting: bool, cleanup: ExitStack) -> ManagedProcess:
    scratch = program.scratch.resolve()
    env = child_env(os.environ, program.env, scratch)
    writable = [scratch]
    if noting:
        directory = cleanup.enter_context(reporter.socket_directory(scratch))
        env = reporter.with_reporter(env, directory)
        writable += [directory] if directory != scratch else []
    return ManagedProcess.start(
        program.argv, env=env, cwd=scratch, log_path=program.log, walls=session.walls, writable=writable,
        readable=named_paths(session.stack), overlays=program.overlays,
        secrets=secret_values(os.environ, program.env) | flag_values(program.argv),
        limits=limits_for(session.stack.limits.memory_bytes, scratch),
    )  # fmt: skip


def _wait(session: Session, program: Program, process: ManagedProcess, started_s: float) -> int:
    """Until it is gone; its peak memory. Raises LaunchFailed at its deadline, BudgetSpent at the budget's end."""
    pause_s = _POLL_S
    while process.alive():
        if session.clock() >= started_s + program.timeout_s:
            raise LaunchFailed(
                f"{program.name}: it did not end within {program.timeout_s:g} s",
                outcome="hung",
                where=f"log {process.log_path}",
                hint=f"raise {program.deadline} in the stack file if it only needs longer",
                lines=process.tail(SHOWN_LINES),
            )
        if session.budget.remaining_s() <= 0:
            raise BudgetSpent(f"the budget ended while {program.name} was running")
        if pause_s >= _SLOWEST_POLL_S:
            process.memory_bytes()
        time.sleep(pause_s)
        pause_s = min(_SLOWEST_POLL_S, 1.2 * pause_s)
    return process.memory_bytes()


def _failure(session: Session, program: Program, process: ManagedProcess) -> LaunchFailed | None:
    """Why its end is no result; None for an end by itself with code 0."""
    exceeded = process.exceeded
    if process.returncode == 0 and exceeded is None:
        return None
    lines = process.tail(_EXPLAINED_LINES)
    meaning, hint = ("", "") if exceeded else explain(session.engine, lines)
    words = str(exceeded) if exceeded else f"it failed ({describe_exit(process.returncode)})"
    return LaunchFailed(
        f"{program.name}: {words}" + (f": {meaning}" if meaning else ""),
        outcome=exceeded.outcome if exceeded else "died",
        where=f"log {process.log_path}",
        hint=hint or "the last lines of its log say why",
        lines=lines[-SHOWN_LINES:],
    )
