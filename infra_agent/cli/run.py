"""`infra-agent run`: one goal, pursued to its end."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra_agent.cli.narrator import TerminalNarrator
from infra_agent.cli.options import (
    BaseUrl,
    Headers,
    JsonFlag,
    LlmTimeout,
    LlmWindow,
    Model,
    NoSandbox,
    StackRef,
    runs_root,
)
from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.cli.spending import (
    MaxDisk,
    MaxLaunches,
    MaxTokens,
    MaxUsd,
    PriceBoth,
    PriceInput,
    PriceOutput,
    price_for,
    with_ceilings,
)
from infra_agent.cli.streams import hide
from infra_agent.errors import Interrupted, UsageError
from infra_agent.redact.known import flag_values, hidden_argv

if TYPE_CHECKING:
    from infra_agent.agent.brains.base import Brain
    from infra_agent.agent.choose import Choice, LlmFlags
    from infra_agent.agent.start import Request
    from infra_agent.goal.declared import MetricSpec
    from infra_agent.goal.model import Goal
    from infra_agent.harness.budget.prices import FlatPrice
    from infra_agent.harness.sandbox import Walls
    from infra_agent.harness.session import Session
    from infra_agent.stack.model import Stack

DURATION = re.compile(r"(?P<value>\d+(\.\d+)?)\s*(?P<unit>s|m|min|h)?")
UNIT_S = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
HEADER = "--header"
MAX_SEED = 2**53 - 1
"""Largest whole number that the ledger's canonical JSON keeps exactly."""


def run(
    goal: Annotated[str, typer.Option("--goal", help="The goal in words, or the path of a goal file (.toml).")],
    stack: StackRef = None,
    brain: Annotated[
        str | None,
        typer.Option("--brain", help="playbook, search, script or llm. Default: llm when configured, else playbook."),
    ] = None,
    script: Annotated[Path | None, typer.Option("--script", help="Actions of the script brain (TOML).")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    llm_timeout: LlmTimeout = None,
    llm_window: LlmWindow = None,
    header: Headers = None,
    budget: Annotated[str | None, typer.Option("--budget", help="Wall clock, e.g. 90s, 20m, 2h.")] = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    max_launches: MaxLaunches = None,
    max_disk: MaxDisk = None,
    price: PriceBoth = None,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of the run; drawn when not given.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show goal and stack as understood; run nothing.")] = False,
    no_sandbox: NoSandbox = False,
    as_json: JsonFlag = False,
) -> int:
    """Pursue a goal: measure, form hypotheses, prove changes, report.

    With --json: {goal, understood} for --dry-run, else the report (see docs/report.schema.json).
    """
    from infra_agent.goal.echo import describe
    from infra_agent.stack.files import resolve_stack
    from infra_agent.stack.secrets import stack_secrets

    system, source = resolve_stack(stack, Path.cwd())
    wanted, notes = read_goal(goal, budget, system.metrics)
    wanted = with_ceilings(wanted, max_usd, max_tokens, max_launches, max_disk)
    hide(stack_secrets(system))
    from infra_agent.agent.choose import choose_brain, wanted_brain
    from infra_agent.agent.make import require_brain, require_price

    flags = llm_flags(model, base_url, llm_timeout, llm_window, header)
    price_for(wanted_brain(brain, flags, os.environ), price, price_input, price_output)
    if dry_run:
        return _show(wanted, notes, source, system, as_json)
    chosen = choose_brain(brain, script, flags, os.environ)
    require_brain(chosen)
    given = price_for(chosen.name, price, price_input, price_output)
    require_price(chosen, given)
    with TerminalNarrator(stderr()) as narrator:
        narrator.line("Goal", describe(with_defaults(wanted, system)))
        for note in notes:
            narrator.line("", note)
        system = prepared(system, source, narrator)
        return _carry_out(wanted, system, source, chosen, given, seed, no_sandbox, narrator, as_json)


def llm_flags(
    model: str | None, base_url: str | None, timeout: str | None, window: int | None, headers: list[str] | None
) -> LlmFlags:
    """The options that several commands share about the model. Values of headers are hidden from here on."""
    from infra_agent.agent.choose import LlmFlags

    timeout_s = seconds(timeout, "--llm-timeout") if timeout is not None else None
    flags = LlmFlags(
        model=model, base_url=base_url, timeout_s=timeout_s, window_tokens=window, headers=tuple(headers or ())
    )
    hide(flags.secrets)
    return flags


def read_goal(
    text: str, budget: str | None, declared: Mapping[str, MetricSpec] | None = None
) -> tuple[Goal, list[str]]:
    """A goal from words or from a file, with what was assumed. `budget` overrides the goal's own.

    `declared`: metrics that the stack itself declares.
    """
    from infra_agent.goal.echo import understood
    from infra_agent.goal.files import load_goal
    from infra_agent.goal.parse import parse_goal

    from_file = text.endswith(".toml")
    metrics = declared or {}
    goal = load_goal(Path(text), metrics) if from_file else parse_goal(text, metrics)
    notes = [] if from_file else understood(text, goal, metrics)
    if budget is not None:
        goal = goal.model_copy(update={"budget_s": seconds(budget)})
    return goal, notes


def with_defaults(goal: Goal, stack: Stack) -> Goal:
    """The goal as it will be pursued: load and budget filled in from the stack where it names none."""
    from infra_agent.goal.model import Load

    load = goal.load or Load(concurrency=stack.workload.concurrency)
    return goal.model_copy(update={"load": load, "budget_s": goal.budget_s or stack.limits.budget_s})


def seconds(text: str, where: str = "--budget") -> float:
    """Seconds of a duration such as 90s, 20m or 2h."""
    match = DURATION.fullmatch(text.strip())
    if match is None or float(match["value"]) <= 0:
        raise UsageError(f"{text!r} is not a duration", where=where, hint="for example 90s, 20m or 2h")
    return float(match["value"]) * UNIT_S[match["unit"]]


def _show(goal: Goal, notes: list[str], source: str, stack: Stack, as_json: bool) -> int:
    from infra_agent.goal.echo import describe

    if as_json:
        document: dict[str, Any] = {
            "goal": goal.model_dump(mode="json"),
            "understood": describe(with_defaults(goal, stack)),
            "notes": notes,
        }
        print_json({**document, "stack": {"source": source, "name": stack.name, "engine": stack.engine}})
    else:
        print_lines([f"Goal    {describe(with_defaults(goal, stack))}", *(f"        {note}" for note in notes)])
        print_lines([f"Stack   {stack.name} · {stack.engine} · {stack.model or stack.url or ''} ({source})"])
    return 0


def prepared(stack: Stack, source: str, narrator: TerminalNarrator) -> Stack:
    """The stack, ready: the demo is installed on first use; any other stack must be there."""
    from infra_agent.stack.demo import prepare_demo
    from infra_agent.stack.files import DEMO, validate_paths

    if source == DEMO:
        return prepare_demo(lambda text: narrator.line("Set-up", text))
    validate_paths(stack)
    return stack


def _carry_out(
    goal: Goal,
    stack: Stack,
    source: str,
    brain: Choice,
    price: FlatPrice | None,
    seed: int | None,
    no_sandbox: bool,
    narrator: TerminalNarrator,
    as_json: bool,
) -> int:
    from infra_agent.agent.make import brain_for
    from infra_agent.agent.start import begin
    from infra_agent.harness.sandbox import hold_walls

    walls = hold_walls(no_sandbox, stack.limits.memory_bytes)
    request = replace(request_for(goal, stack, source, brain, walls), price=price)
    if seed is not None:
        request = replace(request, seed=seed)
    try:
        with begin(request, narrator) as session, brain_for(brain, session) as mind:
            return finish(session, mind, narrator, as_json)
    finally:
        _remove_if_empty(request.run_dir)


def request_for(goal: Goal, stack: Stack, source: str, brain: Choice, walls: Walls) -> Request:
    """A new run as this command line asks for it, with a seed that is drawn."""
    from infra_agent.agent.start import Request
    from infra_agent.ledger.approvals import Authority
    from infra_agent.ledger.runs import new_run_dir
    from infra_agent.review.local import local_public_key
    from infra_agent.stack.files import DEMO

    return Request(
        goal=goal,
        stack=stack,
        brain=brain,
        seed=secrets.randbelow(2**31),
        run_dir=new_run_dir(runs_root()),
        walls=walls,
        command=("infra-agent", *hidden_argv(shown(sys.argv[1:]))),
        stack_source=source if source == DEMO else str(Path(source).absolute()),
        secrets=flag_values(sys.argv[1:]) | brain.secrets,
        authority=Authority(local_key=local_public_key()),
    )


def shown(words: Sequence[str]) -> list[str]:
    """The command line as it may be kept: of a header only the name."""
    kept: list[str] = []
    for word in words:
        follows = bool(kept) and kept[-1] == HEADER
        joined = word.startswith(f"{HEADER}=")
        name = word.removeprefix(f"{HEADER}=").partition("=")[0] if follows or joined else ""
        kept.append(f"{HEADER}={name}=***" if joined else f"{name}=***" if follows else word)
    return kept


def _remove_if_empty(run_dir: Path) -> None:
    """A run refused before its first event leaves no directory behind; one with a ledger is never touched."""
    with suppress(OSError):
        run_dir.rmdir()


def finish(session: Session, brain: Brain, narrator: TerminalNarrator, as_json: bool) -> int:
    """Carry a session to its end, write the report, print the result; the exit code is the run's."""
    from infra_agent.agent.run import carry_out
    from infra_agent.publish.publish import publish

    _introduce(session, brain, narrator)
    try:
        finished = carry_out(session, brain)
    except KeyboardInterrupt:
        raise Interrupted(
            f"run {session.run_dir.name} was stopped; what was measured is kept",
            hint=f"infra-agent runs resume {session.run_dir.name}",
        ) from None
    finally:
        if session.state.finished is not None:
            publish(session.run_dir, session.state, session.ledger.masker)
    narrator.rest()
    _print_end(session, as_json)
    return finished.exit_code


def _introduce(session: Session, brain: Brain, narrator: TerminalNarrator) -> None:
    from infra_agent.goal.say import amount

    stack, started = session.stack, session.state.started
    engine = started.environment.get("engine_version", stack.engine)
    cores = started.environment.get("cores", "?")
    narrator.line("Stack", f"{stack.name} · {engine} · {cores} CPU cores · {_work(session)}")
    fell = session.state.fell_back
    note = f"fell back from {fell.brain}: {fell.reason}" if fell is not None else started.brain_note
    narrator.line("Brain", f"{fell.to if fell is not None else brain.name} ({note})")
    sandbox = "sandbox held" if session.walls.mode == "bubblewrap" else "NO SANDBOX"
    narrator.line(
        "Walls",
        f"{sandbox} · network {session.walls.network} · run {session.run_dir.name} in {session.run_dir.parent}/",
    )
    caps = [f"at most {amount(name, cap)}" for name, cap in session.budget.caps.model_dump(exclude_none=True).items()]
    minutes = f"{session.budget.remaining_s() / 60:.0f} min"
    narrator.line("Budget", f"{' · '.join([minutes, *caps])}, seed {session.seed}")


def _work(session: Session) -> str:
    """What is measured: a load, or a run."""
    from infra_agent.stack.engines.experiment import is_experiment

    if is_experiment(session.stack):
        return f"one run takes at most {session.stack.experiment.timeout_s:g} s"
    load = session.load
    return f"load {load.concurrency} concurrent" if load.concurrency else f"load {load.rate_per_s:g} requests/s"


def _print_end(session: Session, as_json: bool) -> None:
    from infra_agent.publish.publish import report_of
    from infra_agent.publish.report.text import summary_lines

    report = report_of(session.state)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        print_lines(summary_lines(report))
