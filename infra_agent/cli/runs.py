"""`infra-agent runs`: list, show, resume, verify and cancel runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.narrator import TerminalNarrator
from infra_agent.cli.options import Headers, JsonFlag, LlmTimeout, NoSandbox, RunRef, runs_root
from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.cli.streams import hide, masker_of
from infra_agent.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from infra_agent.harness.sandbox import Walls
    from infra_agent.ledger.anchor import Anchor
    from infra_agent.ledger.state import RunState

app = typer.Typer(help="Runs: list, show, resume, verify, cancel.", no_args_is_help=True)
GOAL_WIDTH = 60


@app.command("list")
def list_(as_json: JsonFlag = False) -> int:
    """All runs, newest first. JSON keys: runs[{id, started, goal, status, outcome, best, path}]."""
    from infra_agent.ledger.runs import list_runs

    found = list_runs(runs_root())
    if as_json:
        rows = [
            {
                "id": run.id,
                "started": run.started_ts,
                "goal": run.goal_text,
                "status": run.status,
                "outcome": run.outcome,
                "best": run.best,
                "path": str(run.path),
            }
            for run in found
        ]
        print_json({"runs": rows})
    elif not found:
        print_lines([f'No runs in {runs_root()}/ yet. Begin one: infra-agent run --goal "..."'])
    else:
        for run in found:
            print_lines([f"{run.id}  {run.status:<11}  {run.goal_text[:GOAL_WIDTH]}", f"{'':28}{run.outcome}"])
    return 0


@app.command("show")
def show(
    ref: RunRef = "last",
    commands: Annotated[bool, typer.Option("--commands", help="Only the commands that reproduce its figures.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """One run as a card; --json prints the report (docs/report.schema.json)."""
    from infra_agent.ledger.runs import find_run
    from infra_agent.publish.publish import load_state, report_of
    from infra_agent.publish.report.text import summary_lines

    report = report_of(load_state(find_run(runs_root(), ref)))
    if as_json:
        print_json({"commands": list(report.reproduce)} if commands else report.model_dump(mode="json"))
    else:
        print_lines(list(report.reproduce) if commands else summary_lines(report))
    return 0


@app.command("verify")
def verify(
    ref: RunRef = "last",
    anchor: Annotated[
        list[str] | None,
        typer.Option("--anchor", help="A head that somebody else holds: EVENT:HASH, or a text file that quotes some."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Check a run's event chain, artifacts, people's signatures and report, and the heads given with --anchor.

    Exit 1 names each fault. JSON keys: ok, events, head_hash, anchors, problems[{event, line, what}].
    """
    from infra_agent.ledger.runs import find_run
    from infra_agent.ledger.verify import verify as verify_run

    anchors = [each for text in anchor or () for each in _anchors(text)]
    found = verify_run(find_run(runs_root(), ref), anchors)
    if as_json:
        problems = [{"event": p.seq, "line": p.line, "what": p.what} for p in found.problems]
        document = {"ok": found.ok, "events": found.events, "head_hash": found.head_hash}
        print_json({**document, "anchors": [str(each) for each in anchors], "problems": problems})
    elif found.ok:
        held = f", {len(anchors)} anchors hold" if anchors else ""
        print_lines([f"ok: {found.events} events, head {found.events}:{found.head_hash}{held}"])
    else:
        print_lines([f"event {p.seq} (line {p.line}): {p.what}" if p.seq else p.what for p in found.problems])
    return int(ExitCode.OK if found.ok else ExitCode.NOT_MET)


def _anchors(text: str) -> list[Anchor]:
    """One anchor as it is written, or all that a file quotes; a file without any proves nothing and is refused."""
    from infra_agent.ledger.anchor import anchors_in, parse_anchor

    path = Path(text)
    if not path.is_file():
        return [parse_anchor(text, "--anchor")]
    found = anchors_in(path.read_text(encoding="utf-8", errors="replace"), path.name)
    if not found:
        raise UsageError("the file quotes no anchor", where=text, hint="EVENT:HASH, as `runs verify` prints the head")
    return list(found)


@app.command("resume")
def resume(
    ref: RunRef = "last",
    llm_timeout: LlmTimeout = None,
    header: Headers = None,
    no_sandbox: NoSandbox = False,
    as_json: JsonFlag = False,
) -> int:
    """Continue a run where its ledger ends: one that was interrupted, or one on whose changes a person has decided.

    Exit 3 when it waits and nobody has decided, 2 `approval refused` when a decision does not hold. JSON: the report.
    """
    from infra_agent.agent import start
    from infra_agent.agent.choose import resumed_choice
    from infra_agent.agent.make import brain_for, require_brain
    from infra_agent.cli.run import finish, llm_flags
    from infra_agent.harness.sandbox import hold_walls
    from infra_agent.ledger.approvals import Authority
    from infra_agent.ledger.decisions import require_readable
    from infra_agent.ledger.runs import find_run
    from infra_agent.publish.publish import load_state
    from infra_agent.review.local import local_public_key
    from infra_agent.stack.secrets import stack_secrets

    run_dir = find_run(runs_root(), ref)
    require_readable(run_dir)
    walls = hold_walls(no_sandbox)
    state = load_state(run_dir)
    require_same_walls(run_dir, state, walls)
    flags = llm_flags(None, None, llm_timeout, None, header)
    choice = resumed_choice(state.started, run_dir / start.SCRIPT_FILE, flags, os.environ)
    if state.finished is None:
        require_brain(choice)
    authority, secrets = Authority(local_key=local_public_key()), choice.secrets
    with (
        TerminalNarrator(stderr()) as narrator,
        start.resume(run_dir, walls, narrator, secrets=secrets, authority=authority) as session,
    ):
        hide(stack_secrets(session.stack))
        narrator.line("Resumed", f"run {run_dir.name} after {len(session.state.events)} events")
        with brain_for(choice, session) as brain:
            return finish(session, brain, narrator, as_json)


def require_same_walls(run_dir: Path, state: RunState, walls: Walls) -> None:
    """Before anything is written: half a run with walls and half without would not be one experiment."""
    began = state.started.walls.get("mode")
    ended = state.finished is not None and state.finished.outcome != "waiting"
    if not ended and began != walls.mode:
        raise UsageError(
            f"the run began with walls {began!r}, now they are {walls.mode!r}",
            where=str(run_dir),
            hint="resume it the way it was begun (--no-sandbox or not)",
        )


@app.command("cancel")
def cancel(ref: RunRef = "last", as_json: JsonFlag = False) -> int:
    """End an interrupted run for good; a running one is stopped with Ctrl-C where it runs."""
    from infra_agent.ledger import kinds as k
    from infra_agent.ledger.clock import session_clock
    from infra_agent.ledger.runs import find_run
    from infra_agent.ledger.store import Ledger
    from infra_agent.publish.publish import publish

    run_dir = find_run(runs_root(), ref)
    with Ledger.open(run_dir, session_clock(), masker_of(sys.stdout)) as ledger:
        state = ledger.state()
        if state.finished is not None:
            raise UsageError(f"run {run_dir.name} has ended already", hint=f"infra-agent runs show {run_dir.name}")
        sentence = "Cancelled by the user before the goal was decided."
        ledger.append(
            k.RunFinished(
                outcome="cancelled", exit_code=int(ExitCode.NOT_MET), sentence=sentence, elapsed_s=state.elapsed_s
            )
        )
        publish(run_dir, ledger.state(), ledger.masker)
    if as_json:
        print_json({"run": run_dir.name, "status": "cancelled"})
    else:
        print_lines([f"Cancelled {run_dir.name}"])
    return 0
