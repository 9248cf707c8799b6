"""Code changes within a run: may code be changed at all, the run's copy of the sources, and what a launch runs on.

Every launch of a run that may change code, stock's included, runs on the run's own copy: the arms of a comparison then
differ in the patch and in nothing else. No byte code of the sources exists in a copy and none can be written there, so
what runs is compiled from what is reviewed.

Covered: the reasons why code cannot be changed; making, reopening and checking the copies; the environment of a launch.
Not covered: which patches are in scope (`changes.scope`), and what a patch changes (`review.code_risk`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import infra_agent
import probes
from infra_agent.changes.change import STOCK
from infra_agent.changes.kernels import is_kernel
from infra_agent.changes.sources import resolve_sources
from infra_agent.changes.workspace import Overlaid, Workspace, build_workspace, scope_of
from infra_agent.goal.model import Goal
from infra_agent.harness.narrate import Narrator
from infra_agent.harness.overlays import Overlays
from infra_agent.harness.sandbox import Walls
from infra_agent.ledger import kinds as k
from infra_agent.ledger.code_kinds import SourceTaken
from infra_agent.ledger.state import RunState
from infra_agent.ledger.store import Ledger
from infra_agent.review.code_risk import imports_numbers
from infra_agent.stack.engines import engine_of
from infra_agent.stack.engines.command import DECLARES, uses_source
from infra_agent.stack.engines.experiment import measuring_files
from infra_agent.stack.model import PACKAGE, Stack

FROM_SOURCE: Mapping[str, str] = MappingProxyType({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": ""})
"""No byte code is written, and none is looked for outside the sources, where another version's could lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSources:
    """What one launch runs on: the stack as the engine sees it, mounts, environment, and the digest of the tree."""

    stack: Stack
    overlays: Overlays = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    tree: str = ""


def why_no_code(goal: Goal, stack: Stack, walls: Walls) -> str:
    """Why code cannot be changed in a run; empty when it can."""
    if not goal.scope.code:
        return "the goal's scope allows no code changes"
    if stack.url is not None or not engine_of(stack).launches:
        return "a server that is only attached to cannot be changed"
    if not stack.sources:
        return "the stack names no sources that could be patched"
    if walls.mode == "none" and not (stack.engine in DECLARES and uses_source(stack)):
        return "without a sandbox no other tree can take the place of the sources: start the server from {source}"
    return ""


def open_workspace(
    ledger: Ledger, stack: Stack, walls: Walls, narrator: Narrator, clock: Callable[[], float]
) -> Workspace | None:
    """The run's copy of the sources, made now or by an earlier session; None when code cannot be changed."""
    state = ledger.state()
    goal = state.started.goal
    reason = why_no_code(goal, stack, walls)
    if reason:
        if goal.scope.code and state.sessions == 1:
            ledger.append(k.Note(topic="degraded", text=f"code could not be changed in this run: {reason}"))
            narrator.line("Sources", f"code cannot be changed: {reason}")
        return None
    if state.workspace is not None:
        workspace = reopen(ledger.run_dir, stack, state.workspace)
        workspace.remove_leftovers()
        return workspace
    began_s = clock()
    narrator.status("copying the sources")
    workspace = build_workspace(
        ledger.run_dir,
        resolve_sources(stack),
        patchable=stack.patchable,
        protected=stack.protected,
        judged_by=_judged_by(stack),
        when_s=int(datetime.fromisoformat(state.started_ts).timestamp()),
    )
    ready = k.WorkspaceReady(
        sources=tuple(_taken(source) for source in workspace.sources),
        tree=workspace.stock,
        numeric=_computes(workspace.path(STOCK)),
        kernels=any(map(is_kernel, _in_scope(workspace, STOCK))),
        wall_s=clock() - began_s,
    )
    ledger.append(ready)
    names = ", ".join(f"{source.name} ({source.files} files)" for source in workspace.sources)
    narrator.line("Sources", f"copied: {names}; the originals are never changed", ready.wall_s)
    return workspace


def reopen(run_dir: Path, stack: Stack, ready: k.WorkspaceReady) -> Workspace:
    """The copy that an earlier session made, as the ledger describes it."""
    sources = tuple(
        Overlaid(
            name=taken.name,
            origin=Path(taken.origin),
            kind=taken.kind,
            files=taken.files,
            size_bytes=taken.size_bytes,
            shared=taken.shared,
            holes=taken.holes,
        )
        for taken in ready.sources
    )
    scope = scope_of(sources, patchable=stack.patchable, protected=stack.protected, judged_by=_judged_by(stack))
    return Workspace(run_dir=run_dir, sources=sources, scope=scope, stock=ready.tree)


def launch_sources(
    workspace: Workspace | None, stack: Stack, state: RunState, walls: Walls, candidate: str
) -> LaunchSources:
    """What a candidate's launch runs on. `stack`: with its secrets, which the one in the ledger has not.

    Raises ConfigError when its tree can no longer be made as it was.
    """
    if workspace is None:
        return LaunchSources(stack=stack)
    digest = tree_of(state, candidate)
    holder = tree_holder(state, candidate)
    workspace.ensure(holder, digest)
    if walls.mode != "none":
        return LaunchSources(stack=stack, overlays=workspace.overlays(holder), env=FROM_SOURCE, tree=digest)
    workspace.link_shared(holder)
    places = {source.origin: workspace.path(holder) / source.name for source in workspace.sources}
    mapped = tuple(
        source if source.startswith(PACKAGE) else str(places.get(Path(source).resolve(), source))
        for source in stack.sources
    )
    return LaunchSources(stack=stack.model_copy(update={"sources": mapped}), env=FROM_SOURCE, tree=digest)


def tree_of(state: RunState, candidate: str) -> str:
    """Digest of the sources of stock or a candidate; empty in a run that changes no code."""
    unpatched = state.workspace.tree if state.workspace is not None else ""
    return unpatched if candidate == STOCK else state.candidates[candidate].proposed.tree or unpatched


def tree_holder(state: RunState, candidate: str) -> str:
    """Whose tree it is: a candidate that changes parameters only runs on the tree of the one it was built on."""
    while candidate != STOCK and state.candidates[candidate].proposed.patch is None:
        proposed = state.candidates[candidate].proposed
        if not proposed.patches:
            return STOCK
        candidate = proposed.base
    return candidate


def patchable_files(workspace: Workspace, state: RunState, candidate: str) -> tuple[str, ...]:
    """Paths, as a diff would name them, of the files that are in scope."""
    holder = tree_holder(state, candidate)
    if not workspace.path(holder).is_dir():
        workspace.ensure(holder, tree_of(state, candidate))
    return _in_scope(workspace, holder)


def _in_scope(workspace: Workspace, holder: str) -> tuple[str, ...]:
    root = workspace.path(holder)
    places = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if _is_plain(path))
    names = [place.partition("/")[2] if len(workspace.sources) == 1 else place for place in places]
    return tuple(workspace.scope.allowed(names))


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _judged_by(stack: Stack) -> list[Path]:
    """Files that decide how a run is judged, wherever they lie: prompts, weights, this program itself."""
    named = [stack.workload.prompts, stack.reference.prompts]
    files = [Path(name) for name in named if not name.startswith("builtin:")]
    weights = [Path(stack.model)] if Path(stack.model).is_absolute() else []
    files += measuring_files(stack)
    own = [Path(module.__file__).parent for module in (infra_agent, probes) if module.__file__]
    return [*files, *weights, *own]


def _taken(source: Overlaid) -> SourceTaken:
    return SourceTaken.model_validate(
        {
            "name": source.name, "origin": str(source.origin), "kind": source.kind, "files": source.files,
            "size_bytes": source.size_bytes, "shared": source.shared, "holes": source.holes,
        }
    )  # fmt: skip


def _computes(tree: Path) -> bool:
    """Whether any Python file of the sources imports a library of tensors or arrays."""
    files = (path for path in tree.rglob("*.py") if path.is_file() and not path.is_symlink())
    return any(imports_numbers(path.read_bytes()) for path in files)
