"""One launch of the engine, from event to event: nothing runs that the ledger does not know of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from infra_agent.changes.change import STOCK
from infra_agent.errors import BudgetSpent, StackError
from infra_agent.harness.code import LaunchSources, launch_sources
from infra_agent.harness.launch_errors import LaunchFailed
from infra_agent.harness.launch_payment import paid_launch
from infra_agent.harness.ports import free_port
from infra_agent.harness.server import Server, attach, serve
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.redact.known import hidden_argv, hidden_env
from infra_agent.stack.engines.base import LaunchPlan
from infra_agent.stack.engines.experiment import is_experiment
from infra_agent.stack.model import Stack

Purpose = Literal["baseline", "climb", "block", "final", "calibrate", "engagement"]
LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Launch:
    """A running server and the id of its launch."""

    id: str
    server: Server


class _End:
    """What is known of a launch when it ends."""

    def __init__(self) -> None:
        self.ready_s: float | None = None
        self.log: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A launch that the ledger knows of and that is paid for: what to start, on which sources, and where."""

    id: str
    plan: LaunchPlan
    sources: LaunchSources
    scratch: Path
    log: Path
    end: _End


Arm = Literal["stock", "base", "candidate"]
Prepare = Callable[[Path], Mapping[str, str]]


@contextmanager
def launched(
    session: Session, candidate: str, *, arm: Arm, purpose: Purpose, lane: k.Lane, reporter: bool = False,
    prepare: Prepare | None = None,
) -> Iterator[Launch]:  # fmt: skip
    """Start the engine with a candidate's settings on its sources, and always take it down again.

    `prepare` may put files into the launch's own directory, and returns what is added to its environment.
    Raises StackError (recorded as the launch's outcome) and BudgetSpent before anything is started.
    """
    if session.attached:
        session.budget.require(expected_start_s(session), "another launch")
        with _attached(session, candidate, next_id(session), arm, purpose, lane) as launch:
            yield launch
        return
    with begun(session, candidate, arm=arm, purpose=purpose, lane=lane, prepare=prepare) as launch_, \
        _budget_not_engine(session), serve(
            launch_.plan, session.engine, _within_budget(session), walls=session.walls, scratch=launch_.scratch,
            log_path=launch_.log, with_reporter=reporter, overlays=launch_.sources.overlays,
            on_event=session.narrator.status, clock=session.clock,
        ) as server:  # fmt: skip
        launch_.end.ready_s = server.ready_s
        yield Launch(launch_.id, server)


def next_id(session: Session) -> str:
    """The next launch's id."""
    return f"L{len(session.state.launches) + 1}"


@contextmanager
def begun(
    session: Session, candidate: str, *, arm: Arm, purpose: Purpose, lane: k.Lane, prepare: Prepare | None = None,
    complete: Callable[[LaunchPlan, Path], LaunchPlan] | None = None,
) -> Iterator[Begun]:  # fmt: skip
    """Everything around a process of the stack but the process: budget, sources, its plan, and both its events.

    `complete` puts into the plan what depends on the launch's own directory. Raises as `launched` does.
    """
    session.budget.require(expected_start_s(session), "another launch")
    launch_id = next_id(session)
    sources = launch_sources(session.workspace, session.stack, session.state, session.walls, candidate)
    plan = session.engine.plan(sources.stack, session.settings_of(candidate), free_port())
    scratch = session.run_dir.absolute() / "scratch" / launch_id
    log = _log_path(session, launch_id)
    with paid_launch(session, plan, session.settings_of(candidate).get("device"), (scratch, log, log)):
        scratch.mkdir(parents=True, exist_ok=True)
        plan = complete(plan, scratch) if complete is not None else plan
        plan = replace(plan, env={**plan.env, **sources.env, **(prepare(scratch) if prepare is not None else {})})
        _record_start(session, launch_id, candidate, arm, purpose, lane, plan, sources.tree)
        with _recorded(session, launch_id) as end:
            end.log = log
            yield Begun(id=launch_id, plan=plan, sources=sources, scratch=scratch, log=log, end=end)


def expected_start_s(session: Session) -> float:
    """Seconds that a launch took to its first answer, or a run to its end, so far; or the least that any takes."""
    ended = session.state.launches_ended.values()
    ready = [launch.ready_s for launch in ended if launch.ready_s is not None]
    if is_experiment(session.stack):
        ready = [launch.wall_s for launch in ended if launch.outcome == "stopped"]
    return max(ready, default=1.0)


def require_alive(launch: Launch) -> None:
    """Raise LaunchFailed with the engine's last lines when it died while it was measured."""
    if not launch.server.alive():
        outcome, text = launch.server.why_ended()
        lines = launch.server.last_lines(LAST_LINES)
        raise LaunchFailed(f"the engine died while it was measured: {text}", outcome=outcome, lines=lines)


@contextmanager
def _budget_not_engine(session: Session) -> Iterator[None]:
    """An engine that was given less than its own deadline because the budget ends is not to blame for it."""
    cut = session.budget.remaining_s() < session.stack.limits.start_timeout_s
    try:
        yield
    except LaunchFailed as error:
        if cut and error.outcome == "hung":
            raise BudgetSpent("the budget ended while the engine was starting") from error
        raise


@contextmanager
def _recorded(session: Session, launch_id: str) -> Iterator[_End]:
    """Write launch_ended whatever happens."""
    started_s = session.clock()
    end = _End()
    outcome, message = "stopped", ""
    lines: tuple[str, ...] = ()
    try:
        yield end
    except StackError as error:
        outcome, message, lines = getattr(error, "outcome", "died"), error.message, error.lines[-LAST_LINES:]
        raise
    except BaseException:
        outcome = "interrupted"
        raise
    finally:
        artifact = session.ledger.put_artifact(end.log) if end.log is not None and end.log.exists() else ""
        session.ledger.append(
            k.LaunchEnded.model_validate(
                {
                    "id": launch_id, "outcome": outcome, "ready_s": end.ready_s, "wall_s": session.clock() - started_s,
                    "log_artifact": artifact, "last_lines": lines, "message": message,
                }
            )
        )  # fmt: skip


@contextmanager
def _attached(session: Session, candidate: str, launch_id: str, arm: str, purpose: str, lane: str) -> Iterator[Launch]:
    """A server that somebody else runs: recorded the same way, never started or stopped."""
    _record_start(session, launch_id, candidate, arm, purpose, lane, None)
    tell, clock = session.narrator.status, session.clock
    with _recorded(session, launch_id), attach(session.stack, session.engine, on_event=tell, clock=clock) as server:
        yield Launch(launch_id, server)


def _record_start(
    session: Session, launch_id: str, candidate: str, arm: str, purpose: str, lane: str, plan: LaunchPlan | None,
    tree: str = "",
) -> None:  # fmt: skip
    settings: Mapping[str, object] = session.settings_of(candidate) if plan else {}
    session.ledger.append(
        k.LaunchStarted.model_validate(
            {
                "id": launch_id, "candidate": candidate, "arm": STOCK if candidate == STOCK else arm,
                "purpose": purpose, "lane": lane, "settings": dict(settings),
                "argv": hidden_argv(plan.argv if plan else ("attached", session.stack.url or "")),
                "env": hidden_env(plan.env) if plan else {}, "tree": tree,
            }
        )
    )  # fmt: skip


def _within_budget(session: Session) -> Stack:
    """The stack with a start deadline that ends with the budget."""
    limits = session.stack.limits
    start_s = max(1.0, min(limits.start_timeout_s, session.budget.remaining_s()))
    return session.stack.model_copy(update={"limits": limits.model_copy(update={"start_timeout_s": start_s})})


def _log_path(session: Session, launch_id: str) -> Path:
    folder = session.run_dir / "logs"
    folder.mkdir(exist_ok=True)
    return folder / f"{launch_id}.log"
