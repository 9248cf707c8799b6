"""`infra-agent stack up`: the stack served in the foreground, with or without what a run has accepted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from infra_agent.changes.change import STOCK, settings_digest
from infra_agent.cli.narrator import TerminalNarrator
from infra_agent.cli.options import runs_root
from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.cli.streams import hide
from infra_agent.errors import ConfigError, UsageError
from infra_agent.harness.code import LaunchSources, launch_sources, reopen, why_no_code
from infra_agent.harness.ports import free_port, require_free
from infra_agent.harness.relay import relayed
from infra_agent.harness.sandbox import Walls, hold_walls
from infra_agent.harness.server import Server, serve
from infra_agent.ledger.approvals import Authority
from infra_agent.ledger.consent import require_consent
from infra_agent.ledger.runs import find_run
from infra_agent.publish.publish import load_state
from infra_agent.review.local import local_public_key
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.engines import engine_of
from infra_agent.stack.engines.experiment import is_experiment
from infra_agent.stack.files import DEMO, resolve_stack, validate_paths
from infra_agent.stack.model import ParameterValue, Stack
from infra_agent.stack.secrets import stack_secrets
from infra_agent.stack.setup import env_ready

POLL_S = 0.5
RELAYED = "relayed from this machine's loopback interface; the engine has a network of its own and reaches nothing"


def serve_until_stopped(
    stack_ref: str | None, run_ref: str | None, port: int | None, no_sandbox: bool, as_json: bool
) -> int:
    """Start the engine, print where it answers, and wait for Ctrl-C. 0 after a stop, StackError if it dies."""
    stack = _ready_stack(stack_ref)
    hide(stack_secrets(stack))
    digest = stack_digest(stack, {})
    settings = stack.launch.parameters if run_ref is None else accepted_settings(run_ref, digest)
    engine = engine_of(stack)
    if not engine.launches:
        raise UsageError(f"engine {engine.name} is attached to, not launched", hint="start the server where it lives")
    if is_experiment(stack):
        raise UsageError("an experiment is run, not served", hint="`infra-agent run` measures it")
    with TerminalNarrator(stderr()) as narrator, tempfile.TemporaryDirectory(prefix="infra-agent-up-") as folder:
        scratch, log = Path(folder) / "scratch", Path(folder) / "engine.log"
        walls = hold_walls(no_sandbox, stack.limits.memory_bytes)
        patches, sources = accepted_code(run_ref, stack, walls)
        plan = engine.plan(sources.stack, settings, free_port() if port is None else port)
        plan = replace(plan, env={**plan.env, **sources.env})
        require_free(plan.host, plan.port)
        with (
            serve(
                plan, engine, stack, walls=walls, scratch=scratch, log_path=log, overlays=sources.overlays,
                on_event=narrator.status,
            ) as server,
            _reachable(server, plan.port),
        ):  # fmt: skip
            found = {"url": server.base_url, "model": server.model, "settings": dict(settings)}
            found |= {"patches": list(patches)} if patches else {}
            found["digest"] = settings_digest(digest, settings, patches)
            found["network"] = "host, shared" if server.via is None else RELAYED
            if as_json:
                print_json(found)
            else:
                print_lines([f"{name:<10}{value}" for name, value in found.items()] + ["Ctrl-C stops it"])
            try:
                while server.alive():
                    time.sleep(POLL_S)
            except KeyboardInterrupt:
                return 0
            raise ConfigError("the engine ended by itself", where=str(log), hint="\n".join(server.last_lines(5)))


def _reachable(server: Server, port: int) -> AbstractContextManager[None]:
    """A way in from this machine, where the engine has a network of its own."""
    return nullcontext() if server.via is None else relayed(server.via, port)


def accepted_settings(run_ref: str, digest: str) -> Mapping[str, ParameterValue]:
    """Settings of a run's accepted best; an error when the run was made on another stack."""
    run_dir = find_run(runs_root(), run_ref)
    state = load_state(run_dir)
    if state.started.stack_digest != digest:
        raise UsageError(
            f"run {state.started.run_id} was made on another stack than this one",
            hint="name its stack with --stack, or use --stock",
        )
    if state.best == STOCK:
        raise UsageError(f"run {state.started.run_id} accepted no change", hint="use --stock")
    require_consent(run_dir, state, [state.best], Authority(local_key=local_public_key()))
    return state.candidates[state.best].proposed.settings


def accepted_code(run_ref: str | None, stack: Stack, walls: Walls) -> tuple[tuple[str, ...], LaunchSources]:
    """The patches of a run's accepted best, and the run's own tree that has them; the originals without any."""
    if run_ref is None:
        return (), LaunchSources(stack=stack)
    run_dir = find_run(runs_root(), run_ref)
    state = load_state(run_dir)
    patches = () if state.best == STOCK else state.candidates[state.best].proposed.patches
    if not patches or state.workspace is None:
        return (), LaunchSources(stack=stack)
    reason = why_no_code(state.started.goal, stack, walls)
    if reason:
        raise UsageError(
            f"the accepted patch cannot be served: {reason}", hint="use --stock, or apply the patch yourself"
        )
    workspace = reopen(run_dir, stack, state.workspace)
    return patches, launch_sources(workspace, stack, state, walls, state.best)


def _ready_stack(stack_ref: str | None) -> Stack:
    from infra_agent.stack.demo import demo_paths

    stack, source = resolve_stack(stack_ref, Path.cwd())
    if source != DEMO:
        validate_paths(stack)
    elif not env_ready(demo_paths()):
        raise UsageError("the demo is not installed yet", hint="infra-agent run --stack demo --goal ... installs it")
    return stack
