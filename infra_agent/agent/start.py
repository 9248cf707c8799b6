"""Begins and resumes runs: builds the Session from a request or from a ledger, and picks the brain."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra_agent import __version__
from infra_agent.agent.choose import Choice
from infra_agent.errors import ConfigError, UsageError
from infra_agent.goal.files import dump_goal
from infra_agent.goal.model import Goal, Metric
from infra_agent.harness.budget import Budget
from infra_agent.harness.figure import requests_needed
from infra_agent.harness.machine import describe_machine
from infra_agent.harness.narrate import Narrator
from infra_agent.harness.oracle import OracleHolder
from infra_agent.harness.sandbox import Walls
from infra_agent.harness.session import Session
from infra_agent.harness.versions import engine_version
from infra_agent.ledger import kinds as k
from infra_agent.ledger.disk import disk_error
from infra_agent.ledger.state import RunState
from infra_agent.ledger.store import Ledger
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.engines import get_engine
from infra_agent.stack.files import dump_stack
from infra_agent.stack.model import Stack
from probes.load.prompts import digest, load_prompts
from probes.load.types import Prompt
from probes.numeric.prompts import filled
from probes.numeric.types import AnswerPrompt

SCRIPT_FILE = "script.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What `infra-agent run` was asked for, everything resolved."""

    goal: Goal
    stack: Stack
    brain: Choice
    seed: int
    run_dir: Path
    walls: Walls
    command: tuple[str, ...]


def utc_now() -> datetime:
    """The ledger's clock."""
    return datetime.now(UTC)


@contextmanager
def begin(request: Request, narrator: Narrator, clock: Callable[[], float] = time.monotonic) -> Iterator[Session]:
    """A new run: its contract is the first event, written before anything is spent."""
    prompts = _prompts(request.stack)
    require_possible(request.goal, request.stack, prompts)
    with Ledger.create(request.run_dir, utc_now) as ledger:
        started = _started(request, prompts)
        _write_inputs(request)
        ledger.append(started)
        with _session(ledger, started, request.walls, narrator, clock, 0.0, prompts) as session:
            yield session


def require_possible(goal: Goal, stack: Stack, prompts: tuple[Prompt, ...]) -> None:
    """Refuse, before anything is spent, what this stack's workload can never show."""
    if any(limit.metric is Metric.ITL_S for limit in goal.slo):
        raise ConfigError("an SLO limits TTFT, TPOT or E2E of a request, not ITL", where="goal.slo", hint="use TPOT")
    streamed = {Metric.TTFT_S, Metric.TPOT_S, Metric.ITL_S}
    asked = {goal.metric, *(limit.metric for limit in (*goal.slo, *goal.constraints.limits))}
    if not stack.workload.stream and asked & streamed:
        names = ", ".join(sorted(metric.value for metric in asked & streamed))
        raise ConfigError(f"{names} needs streaming", where="workload.stream", hint="set workload.stream = true")
    if stack.workload.endpoint == "completions" and any(len(prompt.messages) > 1 for prompt in prompts):
        raise ConfigError(
            "the completions endpoint takes single-message prompts only",
            where="workload.prompts",
            hint='set workload.endpoint = "chat"',
        )
    attached = stack.url is not None or not get_engine(stack.engine).launches
    if attached and goal.metric in (Metric.STARTUP_S, Metric.MEMORY_BYTES):
        raise ConfigError(f"{goal.metric.value} of a server that is only attached to cannot be seen", where="stack.url")


def _write_inputs(request: Request) -> None:
    try:
        (request.run_dir / "goal.toml").write_text(dump_goal(request.goal), encoding="utf-8")
        (request.run_dir / "stack.toml").write_text(dump_stack(request.stack), encoding="utf-8")
        if request.brain.script is not None:
            shutil.copyfile(request.brain.script, request.run_dir / SCRIPT_FILE)
    except OSError as error:
        raise disk_error(error, request.run_dir, request.run_dir.name) from error


@contextmanager
def resume(
    run_dir: Path, walls: Walls, narrator: Narrator, clock: Callable[[], float] = time.monotonic
) -> Iterator[Session]:
    """An interrupted run, continued by its ledger. Budget already spent stays spent."""
    with Ledger.open(run_dir, utc_now) as ledger:
        state = ledger.state()
        if state.finished is not None:
            raise UsageError(
                f"run {run_dir.name} has ended: {state.finished.sentence}",
                where=str(run_dir),
                hint=f"infra-agent runs show {run_dir.name}",
            )
        prompts = _prompts(state.started.stack)
        _require_same_work(state.started, prompts)
        spent = spent_s(state)
        ledger.append(k.RunResumed(pid=os.getpid(), spent_s=spent))
        with _session(ledger, state.started, walls, narrator, clock, spent, prompts) as session:
            yield session


def spent_s(state: RunState) -> float:
    """Budget used by all sessions so far, from the time stamps of their events; pauses between sessions are free."""
    total, begun, last = 0.0, None, None
    for stamped in state.events:
        now = datetime.fromisoformat(stamped.ts)
        if begun is None or last is None or isinstance(stamped.data, k.RunResumed | k.Recovered):
            total += (last - begun).total_seconds() if begun is not None and last is not None else 0.0
            begun = now
        last = now
    if begun is not None and last is not None:
        total += (last - begun).total_seconds()
    return max(total, state.elapsed_s)


@contextmanager
def _session(
    ledger: Ledger,
    started: k.RunStarted,
    walls: Walls,
    narrator: Narrator,
    clock: Callable[[], float],
    spent_s: float,
    prompts: tuple[Prompt, ...],
) -> Iterator[Session]:
    stack = started.stack
    with OracleHolder(stack) as oracle:
        try:
            yield Session(
                ledger=ledger,
                goal=started.goal,
                stack=stack,
                engine=get_engine(stack.engine),
                walls=walls,
                run_dir=ledger.run_dir,
                narrator=narrator,
                budget=Budget(started.budget_s, clock, spent_s),
                clock=clock,
                seed=started.seed,
                prompts=prompts,
                answer_prompts=_answer_prompts(stack, started.goal),
                oracle=oracle,
            )
        finally:
            shutil.rmtree(ledger.run_dir / "scratch", ignore_errors=True)


def _started(request: Request, prompts: tuple[Prompt, ...]) -> k.RunStarted:
    stack, goal = request.stack, request.goal
    environment = {**describe_machine(), "engine_version": engine_version(get_engine(stack.engine), stack)}
    return k.RunStarted(
        run_id=request.run_dir.name,
        goal=goal,
        stack=stack,
        stack_digest=stack_digest(stack, {}),
        workload_sha256=_workload_digest(goal, stack, prompts),
        brain=request.brain.name,
        brain_note=request.brain.note,
        brain_settings=request.brain.settings(),
        seed=request.seed,
        budget_s=goal.budget_s or stack.limits.budget_s,
        version=__version__,
        environment=environment,
        walls=request.walls.as_dict(),
        command=request.command,
    )


def _workload_digest(goal: Goal, stack: Stack, prompts: tuple[Prompt, ...]) -> str:
    workload = stack.workload
    closed = goal.load is None or goal.load.concurrency is not None
    requests = requests_needed(goal, workload.requests, _concurrency(goal, stack) if closed else 1)
    return digest(prompts, workload.max_tokens, requests, workload.endpoint)


def _require_same_work(started: k.RunStarted, prompts: tuple[Prompt, ...]) -> None:
    """A prompt file edited since the start would make the blocks of one comparison unequal."""
    now = _workload_digest(started.goal, started.stack, prompts)
    if now != started.workload_sha256:
        raise ConfigError(
            "the workload's prompts have changed since the run began: its blocks would not be comparable",
            where=started.stack.workload.prompts,
            hint="restore the file, or begin a new run",
        )


def _prompts(stack: Stack) -> tuple[Prompt, ...]:
    return _load(stack.workload.prompts, "workload.prompts")


def _answer_prompts(stack: Stack, goal: Goal) -> tuple[AnswerPrompt, ...]:
    """As many prompts as the load has requests in flight: batching must be as full as it will be."""
    prompts = _load(stack.reference.prompts, "reference.prompts")
    asked = tuple(AnswerPrompt(id=f"A{i}", text=p.messages[-1].content) for i, p in enumerate(prompts, start=1))
    return filled(asked, _concurrency(goal, stack))


def _concurrency(goal: Goal, stack: Stack) -> int:
    named = goal.load.concurrency if goal.load is not None else None
    return named or stack.workload.concurrency


def _load(name: str, place: str) -> tuple[Prompt, ...]:
    try:
        return load_prompts(name)
    except (ValueError, OSError) as error:
        raise ConfigError(str(error), where=place, hint="use builtin:NAME or a JSONL file") from error
