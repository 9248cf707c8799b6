"""Begins and resumes runs: builds the Session from a request or from a ledger, and picks the brain."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from infra_agent import __version__
from infra_agent.agent.choose import Choice
from infra_agent.agent.decisions import require_decided
from infra_agent.changes.sources import resolve_sources
from infra_agent.errors import ConfigError, UsageError
from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.files import dump_goal
from infra_agent.goal.model import Goal, Metric
from infra_agent.harness.budget import Budget
from infra_agent.harness.budget.book import LedgerBook
from infra_agent.harness.budget.prices import FlatPrice, price_data
from infra_agent.harness.code import open_workspace, why_no_code
from infra_agent.harness.figure import requests_needed
from infra_agent.harness.local_probes import require_known
from infra_agent.harness.machine import describe_machine
from infra_agent.harness.narrate import Narrator
from infra_agent.harness.oracle import OracleHolder
from infra_agent.harness.sandbox import Walls
from infra_agent.harness.session import Session
from infra_agent.harness.versions import engine_version
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import Authority
from infra_agent.ledger.clock import session_clock
from infra_agent.ledger.decisions import require_readable
from infra_agent.ledger.disk import disk_error
from infra_agent.ledger.state import RunState
from infra_agent.ledger.store import Ledger
from infra_agent.redact.known import secret_values
from infra_agent.redact.masker import Masker
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.engines import engine_of
from infra_agent.stack.engines.experiment import is_experiment, measuring_files
from infra_agent.stack.files import dump_stack
from infra_agent.stack.hashing import files_digest
from infra_agent.stack.model import Stack
from infra_agent.stack.secrets import hidden_stack, restored_stack, stack_secrets
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
    price: FlatPrice | None = None
    """What the user says that a language model costs."""
    stack_source: str = ""
    secrets: frozenset[str] = frozenset()
    """Values that must not be written anywhere, beside those found in environment and stack (API keys)."""
    authority: Authority = Authority()


@contextmanager
def begin(request: Request, narrator: Narrator, clock: Callable[[], float] = time.monotonic) -> Iterator[Session]:
    """A new run: its contract is the first event, written before anything is spent."""
    prompts = _prompts(request.stack)
    require_possible(request.goal, request.stack, prompts)
    if not why_no_code(request.goal, request.stack, request.walls):
        resolve_sources(request.stack)
    masker = Masker(secret_values(os.environ) | stack_secrets(request.stack) | request.secrets)
    with Ledger.create(request.run_dir, session_clock(), masker) as ledger:
        started = _started(request, prompts)
        _write_inputs(request, masker)
        ledger.append(started.model_copy(update={"stack": hidden_stack(started.stack)}))
        with _session(ledger, started, request.walls, narrator, clock, 0.0, prompts, request.authority) as session:
            yield session


def require_possible(goal: Goal, stack: Stack, prompts: tuple[Prompt, ...]) -> None:
    """Refuse, before anything is spent, what this stack's workload can never show."""
    _require_same_kind(goal, stack)
    require_known(stack)
    if is_experiment(stack):
        return
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
    attached = stack.url is not None or not engine_of(stack).launches
    if attached and goal.metric in (Metric.STARTUP_S, Metric.MEMORY_BYTES):
        raise ConfigError(f"{goal.metric.value} of a server that is only attached to cannot be seen", where="stack.url")


def _require_same_kind(goal: Goal, stack: Stack) -> None:
    """A server is measured in its own metrics, an experiment in those that its stack declares."""
    asked = (goal.metric, *(limit.metric for limit in goal.constraints.limits))
    experiment = is_experiment(stack)
    for metric in asked:
        if isinstance(metric, DeclaredMetric):
            spec = stack.metrics.get(metric.name)
            if spec is None or spec.declared(metric.name) != metric:
                known = ", ".join(stack.metrics) or "none"
                raise ConfigError(
                    f"the stack does not declare {metric.name}", where="metrics", hint=f"it declares: {known}"
                )
        elif experiment and metric is not Metric.MEMORY_BYTES:
            hint = f"it declares: {', '.join(stack.metrics)}"
            raise ConfigError(f"an experiment has no {metric.value}: it serves nobody", where="goal", hint=hint)
    target = goal.target
    if isinstance(goal.metric, DeclaredMetric) and target.kind == "absolute" and target.value < goal.metric.resolution:
        least = goal.metric.level(goal.metric.resolution)
        hint = f"ask for at least {least}, or lower metrics.{goal.metric.name}.resolution"
        raise ConfigError("the target lies below what the metric can tell apart", where="goal", hint=hint)
    if experiment and goal.constraints.answers_unchanged:
        raise ConfigError("an experiment gives no answers", where="goal", hint="a required probe checks its results")


def _write_inputs(request: Request, masker: Masker) -> None:
    texts = {"goal.toml": dump_goal(request.goal), "stack.toml": dump_stack(hidden_stack(request.stack))}
    try:
        if request.brain.script is not None:
            texts[SCRIPT_FILE] = request.brain.script.read_text(encoding="utf-8")
        for name, text in texts.items():
            (request.run_dir / name).write_text(masker.text(text), encoding="utf-8")
    except OSError as error:
        raise disk_error(error, request.run_dir, request.run_dir.name) from error


@contextmanager
def resume(
    run_dir: Path,
    walls: Walls,
    narrator: Narrator,
    clock: Callable[[], float] = time.monotonic,
    secrets: frozenset[str] = frozenset(),
    authority: Authority | None = None,
) -> Iterator[Session]:
    """An interrupted run, or one that a person has decided on, continued by its ledger. Spent budget stays spent.

    `secrets`: values that must not be written anywhere, beside those found in environment and stack.
    ApprovalRefused, ApprovalPending: a decision does not hold, or there is none; nothing was written then.
    """
    authority = authority or Authority()
    require_readable(run_dir)
    known = Masker(secret_values(os.environ) | secrets)
    with Ledger.open(run_dir, session_clock(), known) as ledger:
        state = ledger.state()
        if state.finished is not None and state.finished.outcome != "waiting":
            raise UsageError(
                f"run {run_dir.name} has ended: {state.finished.sentence}",
                where=str(run_dir),
                hint=f"infra-agent runs show {run_dir.name}",
            )
        kept = state.started
        require_decided(run_dir, state, authority)
        stack = restored_stack(kept.stack, kept.stack_digest, kept.stack_source, os.environ)
        ledger.masker = known.adding(stack_secrets(stack))
        started = kept.model_copy(update={"stack": stack})
        prompts = _prompts(stack)
        _require_same_work(started, prompts)
        spent = spent_s(state)
        ledger.append(k.RunResumed(pid=os.getpid(), spent_s=spent))
        with _session(ledger, started, walls, narrator, clock, spent, prompts, authority) as session:
            yield session


def spent_s(state: RunState) -> float:
    """Budget used by all sessions so far, from the time stamps of their events; pauses between sessions are free.

    So is the time that a person takes: what they decide may be recorded long after the session ended.
    """
    total, begun, last = 0.0, None, None
    for stamped in state.events:
        if _outside_sessions(stamped.data):
            continue
        now = datetime.fromisoformat(stamped.ts)
        if begun is None or last is None or isinstance(stamped.data, k.RunResumed | k.Recovered):
            total += (last - begun).total_seconds() if begun is not None and last is not None else 0.0
            begun = now
        last = now
    if begun is not None and last is not None:
        total += (last - begun).total_seconds()
    return max(total, state.elapsed_s)


def _outside_sessions(data: k.EventData) -> bool:
    """Events of a person's decision."""
    return isinstance(data, k.Approved | k.Declined) or (isinstance(data, k.Accepted) and bool(data.request))


@contextmanager
def _session(
    ledger: Ledger,
    started: k.RunStarted,
    walls: Walls,
    narrator: Narrator,
    clock: Callable[[], float],
    spent_s: float,
    prompts: tuple[Prompt, ...],
    authority: Authority,
) -> Iterator[Session]:
    stack = started.stack
    budget = Budget(started.budget_s, clock, spent_s, caps=started.goal.budget, book=LedgerBook(ledger))
    workspace = open_workspace(ledger, stack, walls, narrator, clock)
    with OracleHolder(stack, walls, ledger.run_dir / "scratch" / "oracle") as oracle:
        try:
            yield Session(
                ledger=ledger,
                goal=started.goal,
                stack=stack,
                engine=engine_of(stack),
                walls=walls,
                run_dir=ledger.run_dir,
                narrator=narrator,
                budget=budget,
                clock=clock,
                seed=started.seed,
                prompts=prompts,
                answer_prompts=_answer_prompts(stack, started.goal),
                oracle=oracle,
                authority=authority,
                workspace=workspace,
            )
        finally:
            shutil.rmtree(ledger.run_dir / "scratch", ignore_errors=True)
            if workspace is not None and ledger.state().finished is not None:
                workspace.remove_trees()


def _started(request: Request, prompts: tuple[Prompt, ...]) -> k.RunStarted:
    stack, goal = request.stack, request.goal
    version = engine_version(engine_of(stack), stack, request.walls)
    environment = {**describe_machine(), "engine_version": version}
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
        price=price_data(request.price),
        stack_source=request.stack_source,
        reviewer_key=request.authority.local_key,
    )


def _workload_digest(goal: Goal, stack: Stack, prompts: tuple[Prompt, ...]) -> str:
    workload = stack.workload
    closed = goal.load is None or goal.load.concurrency is not None
    requests = requests_needed(goal, workload.requests, _concurrency(goal, stack) if closed else 1)
    served = digest(prompts, workload.max_tokens, requests, workload.endpoint)
    return served if not is_experiment(stack) else files_digest(measuring_files(stack))


def _require_same_work(started: k.RunStarted, prompts: tuple[Prompt, ...]) -> None:
    """A prompt file edited since the start would make the blocks of one comparison unequal."""
    now = _workload_digest(started.goal, started.stack, prompts)
    experiment = is_experiment(started.stack)
    what = "what measures the experiment has" if experiment else "the workload's prompts have"
    place = "launch.command, experiment.needs" if experiment else started.stack.workload.prompts
    if now != started.workload_sha256:
        raise ConfigError(
            f"{what} changed since the run began: its blocks would not be comparable",
            where=place,
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
