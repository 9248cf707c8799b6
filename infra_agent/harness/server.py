"""A launch plan turned into a running, answering, identified server, and taken down again whatever happens.

Covered: start to first answer as start-up time, death at any time, the port free before and after, the whole process
tree gone at the end, effective state read inside the engine.
Not covered: engines that only run in a container; a url of someone else's server is attached to, never stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra_agent.errors import ConfigError
from infra_agent.harness import ports, reporter, state
from infra_agent.harness.environment import child_env, secret_values
from infra_agent.harness.launch_errors import LaunchFailed, Outcome, describe_exit, explain
from infra_agent.harness.overlays import NO_OVERLAYS, Overlays
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.ready import Readiness, ReadyCheck
from infra_agent.harness.sandbox import Walls
from infra_agent.stack.engines.base import Engine, LaunchPlan
from infra_agent.stack.model import Stack

_LOG_LINES = 200
_SHOWN_LINES = 12
_PORT_TIMEOUT_S = 5.0
OnEvent = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A ready server. `ready_s`: start to first answered request; `health_s`: start to first good health answer.

    `model` is the name that requests carry, `answered_model` the one that the first answer carried.
    Of an attached server nothing is known but its answers: memory and CPU time are None, the log is empty.
    """

    base_url: str
    model: str
    answered_model: str
    ready_s: float
    health_s: float
    log_path: Path | None
    process: ManagedProcess | None = None
    reporter_directory: Path | None = None
    state_path: str | None = None

    @property
    def pid(self) -> int | None:
        """The engine's process id on the host."""
        return self.process.pid if self.process else None

    def snapshot(self) -> dict[str, float | str | bool]:
        """What is in effect inside the engine now; empty when it cannot tell. Stops the engine for some 0.1 s."""
        if self.reporter_directory is None:
            return {}
        told = state.ask(self.base_url, self.state_path) if self.state_path else {}
        return {**reporter.ask(self.reporter_directory).signals, **told}

    def memory_bytes(self) -> int | None:
        """Peak resident memory of the engine's tree so far."""
        return self.process.memory_bytes() if self.process else None

    def cpu_s(self) -> float | None:
        """CPU time used by the engine's tree so far."""
        return self.process.cpu_s() if self.process else None

    def own_pids(self) -> frozenset[int]:
        """All processes of this launch."""
        return self.process.own_pids() if self.process else frozenset()

    def alive(self) -> bool:
        """Whether the engine's process still runs; an attached server counts as alive."""
        return self.process is None or self.process.alive()

    def last_lines(self, count: int) -> tuple[str, ...]:
        """The last lines of the engine's output, safe to show."""
        return self.process.tail(count) if self.process else ()


@contextmanager
def serve(
    plan: LaunchPlan,
    engine: Engine,
    stack: Stack,
    *,
    walls: Walls,
    scratch: Path,
    log_path: Path,
    with_reporter: bool = False,
    compile_cache: Path | None = None,
    overlays: Overlays = NO_OVERLAYS,
    on_event: OnEvent | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Server]:
    """Start an engine, yield it when it answers, stop it and wait until its port is free again.

    `compile_cache` keeps compiled kernels from launch to launch: leave it out where start-up is what is measured.
    `overlays`: what stands in the place of the stack's sources.
    Raises PortInUse before anything is started, LaunchFailed or WrongModel (with `outcome`) when it does not get ready.
    """
    tell = on_event or _ignore
    scratch = scratch.resolve()
    ports.require_free(plan.host, plan.port)
    with ExitStack() as cleanup:
        env = child_env(os.environ, plan.env, scratch, compile_cache)
        writable = [scratch, *filter(None, [compile_cache])]
        for path in writable:
            path.mkdir(parents=True, exist_ok=True)
        directory = None
        if with_reporter and engine.reporter() is not None:
            directory = cleanup.enter_context(reporter.socket_directory(scratch))
            env = reporter.with_reporter(env, directory)
            writable += [directory] if directory != scratch else []
        started_at = clock()
        process = ManagedProcess.start(
            plan.argv,
            env=env,
            cwd=scratch,
            log_path=log_path,
            walls=walls,
            writable=writable,
            readable=_readable(stack),
            overlays=overlays,
            secrets=secret_values(os.environ, plan.env),
        )
        cleanup.push(lambda error, *_: _take_down(process, plan, stack, tell, failing=error is not None))
        tell(f"started {engine.name}, pid {process.pid}")
        found = _wait(process, plan, engine, stack, clock, started_at)
        tell(f"ready after {found.ready_s:.1f} s")
        yield Server(
            base_url=plan.base_url,
            model=engine.model_in_request(stack),
            answered_model=found.model,
            ready_s=found.ready_s,
            health_s=found.health_s,
            log_path=log_path,
            process=process,
            reporter_directory=directory,
            state_path=stack.launch.state_path,
        )


@contextmanager
def attach(
    stack: Stack,
    engine: Engine,
    *,
    on_event: OnEvent | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Server]:
    """Yield the running server at `stack.url`, checked for health and identity. It is never stopped.

    Raises ConfigError without a url, LaunchFailed or WrongModel like `serve`.
    """
    if stack.url is None:
        raise ConfigError("this stack has no url to attach to", where=stack.name, hint="set url = in the stack file")
    base_url = stack.url.rstrip("/").removesuffix("/v1")

    def fail(outcome: Outcome, text: str) -> LaunchFailed:
        hint = "check that the server is up and the url is right"
        return LaunchFailed(f"the server at {base_url}: {text}", outcome=outcome, where=base_url, hint=hint)

    check = ReadyCheck(
        base_url=base_url,
        engine=engine,
        stack=stack,
        alive=lambda: True,
        fail=fail,
        clock=clock,
        started_at=clock(),
    )
    found = check.wait()
    (on_event or _ignore)(f"attached to {base_url}")
    yield Server(
        base_url=base_url,
        model=engine.model_in_request(stack),
        answered_model=found.model,
        ready_s=found.ready_s,
        health_s=found.health_s,
        log_path=None,
    )


def _wait(
    process: ManagedProcess,
    plan: LaunchPlan,
    engine: Engine,
    stack: Stack,
    clock: Callable[[], float],
    started_at: float,
) -> Readiness:
    def fail(outcome: Outcome, text: str) -> LaunchFailed:
        if not process.alive():
            outcome, text = "died", f"it ended before it was ready ({describe_exit(process.returncode)})"
        lines = process.tail(_LOG_LINES)
        meaning, hint = explain(engine, lines)
        return LaunchFailed(
            f"{engine.name}: {text}" + (f": {meaning}" if meaning else ""),
            outcome=outcome,
            where=f"{plan.host}:{plan.port}, log {process.log_path}",
            hint=hint or _HINTS[outcome],
            lines=lines[-_SHOWN_LINES:],
        )

    check = ReadyCheck(
        base_url=plan.base_url,
        engine=engine,
        stack=stack,
        alive=process.alive,
        fail=fail,
        clock=clock,
        started_at=started_at,
    )
    return check.wait()


_HINTS = {
    "died": "the last lines of its log say why",
    "hung": "raise limits.start_timeout_s in the stack file if it only needs longer",
    "unhealthy": "the last lines of its log say why",
    "wrong_model": "check `model` and `served_model` in the stack file",
}


def _take_down(process: ManagedProcess, plan: LaunchPlan, stack: Stack, tell: OnEvent, *, failing: bool) -> None:
    """Stop the engine and wait for its port. A taken port is an error of its own only if nothing else went wrong."""
    process.stop(stack.limits.stop_timeout_s)
    tell("stopped")
    if not ports.wait_port_free(plan.host, plan.port, _PORT_TIMEOUT_S) and not failing:
        raise LaunchFailed(
            f"port {plan.port} is still taken after the engine was stopped",
            outcome="unhealthy",
            where=f"{plan.host}:{plan.port}",
            hint="a process of the engine survived, or another program took the port",
        )


def _readable(stack: Stack) -> list[Path]:
    """What the stack names and an engine may look for by itself: the model and the patchable sources."""
    return [Path(name).resolve() for name in (stack.model, *stack.sources) if name and Path(name).exists()]


def _ignore(_: str) -> None:
    return None
