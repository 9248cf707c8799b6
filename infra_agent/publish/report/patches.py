"""Code changes in a report: the diff, where it is kept, and the commands that bring it into the sources and back out.

Covered: every candidate with a diff of its own. A run never touches the originals, so there is nothing to undo until
somebody applies a patch; both directions are one command.
Not covered: a pull request.
"""

from __future__ import annotations

import shlex

from infra_agent.ledger import kinds as k
from infra_agent.publish.report.facts import Facts
from infra_agent.publish.report.rows import PatchRow


def patch_row(facts: Facts, proposed: k.CandidateProposed) -> PatchRow | None:
    """The candidate's own code change; None without one."""
    patch = proposed.patch
    if patch is None:
        return None
    path = f"runs/{facts.state.started.run_id}/artifacts/{patch.artifact}"
    return PatchRow(
        diff=patch.diff,
        digest=patch.digest,
        artifact=path,
        files=list(patch.files),
        added=patch.added,
        removed=patch.removed,
        notes=list(patch.notes),
        apply=_command(facts, path, ""),
        undo=_command(facts, path, "-R "),
    )


def undo_patch_text(row: PatchRow) -> str:
    """How to take it back, in words."""
    how = row.undo or f"apply {row.artifact} in reverse"
    return f"the run never touched your sources; if you apply the patch, take it back with: {how}"


def _command(facts: Facts, path: str, reverse: str) -> str:
    workspace = facts.state.workspace
    if workspace is None or len(workspace.sources) != 1:
        return ""
    return f"patch {reverse}-p1 -d {shlex.quote(workspace.sources[0].origin)} < {path}"
