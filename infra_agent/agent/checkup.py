"""The checks of `infra-agent doctor`: what a run needs, found or not, and how to mend it; and every wall, tried."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infra_agent.errors import ExitCode, InfraAgentError, SandboxUnavailable, StackError
from infra_agent.harness.machine import busy_neighbours, describe_machine
from infra_agent.harness.sandbox import Inspection, inspect_walls
from infra_agent.harness.selftest import WallCheck
from infra_agent.harness.versions import engine_version
from infra_agent.library.playbooks import load_playbooks
from infra_agent.stack.demo import demo_paths
from infra_agent.stack.engines import engine_of
from infra_agent.stack.files import DEMO, resolve_stack, validate_paths
from infra_agent.stack.setup import env_ready
from infra_agent.stack.weights import weights_ready

LOW_DISK_BYTES = 2 * 10**9
NEIGHBOUR_SAMPLE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check. `fix` says what to do when it is not ok."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    exit_code: ExitCode = ExitCode.USAGE

    def lines(self) -> list[str]:
        """The check for people."""
        first = f"{'ok ' if self.ok else 'NO '} {self.name:<12}{self.found}"
        return [first] if self.ok or not self.fix else [first, f"{'':16}fix: {self.fix}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """All findings, and what was tried at each wall."""

    findings: tuple[Finding, ...]
    walls: tuple[WallCheck, ...]

    def lines(self) -> list[str]:
        """Everything for people; a wall that did not hold says what got through."""
        shown = [line for finding in self.findings for line in finding.lines()]
        width = max((len(wall.name) for wall in self.walls), default=0)
        for wall in self.walls:
            seen = f": {wall.seen}" if wall.seen else ""
            shown.append(f"{'ok ' if wall.held else 'NO '} {'wall':<12}{wall.name:<{width}}  {wall.tried}{seen}")
        held = sum(wall.held for wall in self.walls)
        return [*shown, f"{held} of {len(self.walls)} walls held"]


def check_machine(stack_ref: str | None, cwd: Path, no_sandbox: bool) -> Checkup:
    """All checks; none of them starts an engine or changes anything."""
    inspection = inspect_walls(no_sandbox)
    findings = (
        _machine(),
        _checked("sandbox", lambda: _sandbox(inspection)),
        _checked("stack", lambda: _stack(stack_ref, cwd)),
        _checked("engine", lambda: _engine(stack_ref, cwd, inspection)),
        _checked("playbooks", lambda: f"{len(load_playbooks())} loaded"),
        _disk(cwd),
        _neighbours(),
    )
    return Checkup(findings=findings, walls=inspection.checks)


def _checked(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name=name, ok=True, found=check())
    except InfraAgentError as error:
        found = f"{error.message} ({error.where})" if error.where else error.message
        return Finding(name=name, ok=False, found=found, fix=error.hint, exit_code=error.exit_code)


def _machine() -> Finding:
    facts = describe_machine()
    shown = ", ".join(f"{key} {value}" for key, value in facts.items())
    return Finding(name="machine", ok=True, found=shown)


def _sandbox(inspection: Inspection) -> str:
    if inspection.problem is not None:
        raise inspection.problem
    walls = inspection.walls
    return "; ".join(filter(None, [f"{walls.mode}: {walls.detail}", f"network {walls.network}", walls.limits]))


def _stack(stack_ref: str | None, cwd: Path) -> str:
    stack, source = resolve_stack(stack_ref, cwd)
    if source == DEMO:
        return "demo, installed" if _demo_ready() else "demo, not installed yet: `infra-agent run` installs it first"
    validate_paths(stack)
    return f"{source}: {stack.engine}, {len(stack.space)} parameters may change"


def _demo_ready() -> bool:
    paths = demo_paths()
    return env_ready(paths) and weights_ready(paths.weights)


def _engine(stack_ref: str | None, cwd: Path, inspection: Inspection) -> str:
    stack, source = resolve_stack(stack_ref, cwd)
    if source == DEMO and not _demo_ready():
        return f"{stack.engine}: comes with the demo"
    engine = engine_of(stack)
    asked = engine.version_argv(stack) is not None
    if inspection.problem is not None and asked:
        raise SandboxUnavailable(
            f"{stack.engine} was not asked for its version: it would run without walls", hint="mend the sandbox first"
        )
    version = engine_version(engine, stack, inspection.walls)
    if asked and engine.launches and stack.url is None and version.startswith("unknown:"):
        python = stack.launch.python or sys.executable
        raise StackError(
            f"{stack.engine} gives no version, {version}",
            where=f"launch.python, {python}",
            hint=f"name the interpreter in launch.python that has {stack.engine} installed",
        )
    return f"{stack.engine} {version}"


def _disk(cwd: Path) -> Finding:
    free = shutil.disk_usage(cwd).free
    ok = free >= LOW_DISK_BYTES
    fix = "free at least 2 GB, or set INFRA_AGENT_RUNS to another disk"
    return Finding(name="disk", ok=ok, found=f"{free / 1e9:.1f} GB free for runs", fix=fix)


def _neighbours() -> Finding:
    busy = busy_neighbours((), NEIGHBOUR_SAMPLE_S)
    names = ", ".join(str(neighbour) for neighbour in busy)
    fix = "stop them before a run: they share the cores that are measured"
    return Finding(
        name="neighbours", ok=not busy, found=names or "no busy process", fix=fix, exit_code=ExitCode.NOT_MET
    )
