"""Where the files of the stack's sources lie that a brain may look at, under the names that a diff uses for them.

Covered: a run that may change code: the tree of the best configuration, which the next diff is made against; any other
run: the originals. Not covered: reading them (`agent.reading`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra_agent.changes.sources import resolve_sources
from infra_agent.errors import ConfigError
from infra_agent.harness.code import tree_holder, tree_of
from infra_agent.harness.session import Session


def source_roots(session: Session) -> Mapping[str, Path]:
    """Prefix → directory. A single source has no prefix; of several each has its name and a slash."""
    workspace = session.workspace
    if workspace is not None:
        state = session.state
        tree = workspace.ensure(tree_holder(state, state.best), tree_of(state, state.best))
        folders = {source.name: tree / source.name for source in workspace.sources}
    else:
        folders = _originals(session)
    several = len(folders) > 1
    return {f"{name}/" if several else "": folder.resolve() for name, folder in folders.items()}


def _originals(session: Session) -> dict[str, Path]:
    try:
        return {source.name: source.origin for source in resolve_sources(session.stack)}
    except ConfigError:
        # A run that changes no code needs no sources; one whose sources are gone has none to show.
        return {}
