"""`infra-agent mcp`: the harness as tools for other people's agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.narrator import TerminalNarrator
from infra_agent.cli.options import JsonFlag, NoSandbox, StackRef, runs_root
from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.cli.streams import hide, masker_of
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.harness.session import Session
    from infra_agent.mcp.scope import Open
    from infra_agent.redact.masker import Masker

TOKEN = "INFRA_AGENT_MCP_TOKEN"


def mcp(
    goal: Annotated[
        str | None, typer.Option("--goal", help="Open a new run for this goal: its first action begins it.")
    ] = None,
    allow_run: Annotated[
        str | None, typer.Option("--allow-run", help="Open an unfinished run that was begun over MCP.")
    ] = None,
    stack: StackRef = None,
    budget: Annotated[str | None, typer.Option("--budget", help="Wall clock of a new run, e.g. 20m.")] = None,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP on the loopback interface, not stdio.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port for --http; 0: a free one.")] = 0,
    list_tools: Annotated[bool, typer.Option("--list", help="Print the tools as JSON and end.")] = False,
    no_sandbox: NoSandbox = False,
    as_json: JsonFlag = False,
) -> int:
    """Serve the tools over MCP: stdio for a client that starts this command, or --http.

    Reading is open. Acting needs --goal or --allow-run, given here by the person who starts the server. No tool
    approves a change: that is `infra-agent review`, typed by a person. stdout carries the protocol only.
    --list prints tools[{name, title, description, needs_scope, input_schema, output_schema, annotations}].
    """
    _require_sdk()
    from infra_agent.mcp.reading import Reader
    from infra_agent.mcp.scope import Scope
    from infra_agent.mcp.server import build_server, tool_list
    from infra_agent.mcp.tools import all_tools

    def known() -> Masker:
        # The transport writes to the descriptor: what it is given must be masked already.
        return masker_of(sys.stdout)

    if list_tools:
        tools = all_tools(Reader(runs_root(), stack, Path.cwd()), Scope(), known)
        print_json({"tools": tool_list(tools)})
        return 0
    narrator = TerminalNarrator(stderr())
    scope = Scope(_opener(goal, allow_run, stack, budget, no_sandbox, narrator))
    server = build_server(all_tools(Reader(runs_root(), stack, Path.cwd()), scope, known))
    try:
        if http:
            _serve_http(server, port, as_json)
        else:
            server.run("stdio")
    except KeyboardInterrupt:
        # The run's thread may be in the middle of a launch; its engine ends with this process, its ledger is whole.
        os._exit(130)
    scope.close()
    return 0


def _require_sdk() -> None:
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise UsageError("the MCP server needs the package mcp", hint="pip install 'infra-agent[mcp]'")


def _opener(
    goal: str | None, allow_run: str | None, stack: str | None, budget: str | None, no_sandbox: bool,
    narrator: TerminalNarrator,
) -> Open | None:  # fmt: skip
    """How the run is opened when the first action comes; everything that can be refused is refused now."""
    if goal is not None and allow_run is not None:
        raise UsageError("a server acts on one run", where="--goal, --allow-run", hint="give one of them")
    if allow_run is not None:
        return _resumed(allow_run, no_sandbox, narrator)
    if goal is None:
        if budget is not None:
            raise UsageError("a budget belongs to a new run", where="--budget", hint="--goal TEXT")
        return None
    return _begun(goal, stack, budget, no_sandbox, narrator)


def _begun(goal: str, stack: str | None, budget: str | None, no_sandbox: bool, narrator: TerminalNarrator) -> Open:
    from infra_agent.agent.choose import Choice
    from infra_agent.agent.make import MCP
    from infra_agent.agent.start import begin
    from infra_agent.cli.run import prepared, read_goal, request_for
    from infra_agent.harness.sandbox import hold_walls
    from infra_agent.stack.files import resolve_stack
    from infra_agent.stack.secrets import stack_secrets

    wanted, _ = read_goal(goal, budget)
    system, source = resolve_stack(stack, Path.cwd())
    hide(stack_secrets(system))
    system = prepared(system, source, narrator)
    walls = hold_walls(no_sandbox, system.limits.memory_bytes)
    brain = Choice(name=MCP, note="another agent acts over MCP")

    @contextmanager
    def open_run() -> Iterator[Session]:
        with begin(request_for(wanted, system, source, brain, walls), narrator) as session:
            narrator.line("Run", f"{session.run_dir.name} in {session.run_dir.parent}/ is open over MCP")
            yield session

    return open_run


def _resumed(ref: str, no_sandbox: bool, narrator: TerminalNarrator) -> Open:
    from infra_agent.agent.make import MCP
    from infra_agent.agent.start import resume
    from infra_agent.cli.runs import require_same_walls
    from infra_agent.harness.sandbox import hold_walls
    from infra_agent.ledger.approvals import Authority
    from infra_agent.ledger.runs import find_run
    from infra_agent.publish.publish import load_state
    from infra_agent.review.local import local_public_key
    from infra_agent.stack.secrets import stack_secrets

    run_dir = find_run(runs_root(), ref)
    state = load_state(run_dir)
    if state.started.brain != MCP:
        raise UsageError(
            f"run {run_dir.name} belongs to the brain {state.started.brain}",
            where="--allow-run",
            hint=f"infra-agent runs resume {run_dir.name}",
        )
    if state.finished is not None:
        raise UsageError(f"run {run_dir.name} has ended", where="--allow-run", hint="--goal TEXT opens a new one")
    walls = hold_walls(no_sandbox)
    require_same_walls(run_dir, state, walls)

    @contextmanager
    def open_run() -> Iterator[Session]:
        authority = Authority(local_key=local_public_key())
        with resume(run_dir, walls, narrator, authority=authority) as session:
            hide(stack_secrets(session.stack))
            yield session

    return open_run


def _serve_http(server: object, port: int, as_json: bool) -> None:
    from infra_agent.mcp.server import new_token, serve_http

    token = os.environ.get(TOKEN) or new_token()
    where = "environment" if os.environ.get(TOKEN) else "made for this start"

    def started(url: str) -> None:
        if as_json:
            print_json({"url": url, "token": token, "token_from": where})
            sys.stdout.flush()
        else:
            print_lines([f"url    {url}", f"token  {token}   ({where}; send it as Authorization: Bearer TOKEN)"])

    serve_http(server, token, port, started)  # type: ignore[arg-type]
