"""A proposed diff on its way to a candidate: in scope, applied to a tree of its own, named, and given its risk class.

Covered: every refusal as an ActionError with file, hunk and reason; two diffs with the same effect are one candidate.
Not covered: launching the candidate (`harness.ladder`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from infra_agent.agent.quote import unquote
from infra_agent.agent.refusals import ActionError
from infra_agent.changes.apply import plan_patch
from infra_agent.changes.change import STOCK, PatchChange
from infra_agent.changes.parse import parse
from infra_agent.changes.patch import Patch, Side
from infra_agent.changes.tree_files import TreeFiles
from infra_agent.changes.validate import LARGEST_FILE_BYTES
from infra_agent.changes.workspace import Made, Workspace
from infra_agent.errors import ChangeRefused
from infra_agent.harness.code import tree_holder, tree_of, why_no_code
from infra_agent.harness.session import Session
from infra_agent.ledger.code_kinds import PatchMade
from infra_agent.review.code_risk import ChangedFile, Surroundings, code_risk
from infra_agent.stack.engines.base import RiskClass
from infra_agent.stack.model import ParameterValue


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOf:
    """The code side of a candidate. `patches` and `tree` as in `CandidateProposed`."""

    patch: PatchMade | None = None
    patches: tuple[str, ...] = ()
    tree: str = ""
    risk: tuple[tuple[RiskClass, str], ...] = ()
    title: str = ""
    diffs: tuple[str, ...] = field(default=(), repr=False)


def inherited(session: Session, base: str) -> CodeOf:
    """What a candidate has of its base's code when it changes none itself."""
    if base == STOCK or not session.state.candidates[base].proposed.patches or session.workspace is None:
        return CodeOf()
    proposed = session.state.candidates[base].proposed
    diffs = _diffs(session, proposed.patches)
    holder = tree_holder(session.state, base)
    session.workspace.ensure(holder, proposed.tree)
    risk = _risk(session, session.workspace, holder, diffs)
    return CodeOf(patches=proposed.patches, tree=proposed.tree, risk=risk, diffs=diffs)


def planned(session: Session, diff: str, base: str) -> tuple[Patch, tuple[str, ...]]:
    """The diff as it would be applied to the base, and the digests of all patches then. Nothing is written."""
    reason = why_no_code(session.goal, session.stack, session.walls)
    if reason or session.workspace is None:
        raise ActionError(f"code cannot be changed: {reason or 'the run has no copy of the sources'}")
    state = session.state
    holder = tree_holder(state, base)
    tree = session.workspace.ensure(holder, tree_of(state, base))
    try:
        patch = plan_patch(TreeFiles(tree), parse(diff), session.workspace.scope).patch
    except ChangeRefused as error:
        raise refusal(error) from error
    before = () if base == STOCK else state.candidates[base].proposed.patches
    return patch, (*before, patch.digest)


def as_meant(session: Session, diff: str, base: str) -> str:
    """The diff as it applies: as it was sent, else with the quoting taken back that the code was shown in."""
    plain = unquote(diff)
    if plain == diff:
        return diff
    try:
        planned(session, diff, base)
    except ActionError as refused:
        try:
            planned(session, plain, base)
        except ActionError:
            raise refused from None
        return plain
    return diff


def make_code(session: Session, diff: str, base: str, candidate: str) -> CodeOf:
    """Apply a diff that `planned` has accepted to a tree of the candidate's own."""
    workspace, state = session.workspace, session.state
    assert workspace is not None
    sent = parse(diff)
    holder, digest = tree_holder(state, base), tree_of(state, base)
    # The run's own time: a repeat of the run makes the same commits.
    when_s = int(datetime.fromisoformat(state.started_ts).timestamp())
    try:
        made = workspace.add(candidate, holder, digest, sent, f"{candidate}: {title_of(sent)}", when_s)
    except ChangeRefused as error:
        raise refusal(error) from error
    change = PatchChange.of(made.applied.patch)
    before = () if base == STOCK else state.candidates[base].proposed.patches
    patches = (*before, change.digest)
    diffs = (*_diffs(session, before), change.diff)
    return CodeOf(
        patch=_recorded(session, change, made),
        patches=patches,
        tree=made.after,
        risk=_risk(session, workspace, candidate, diffs),
        title=title_of(made.applied.patch),
        diffs=diffs,
    )


def require_new(session: Session, candidate: str, code: CodeOf, settings: Mapping[str, ParameterValue]) -> None:
    """Two diffs that lead to the same text are the same change, however they are written."""
    for other in session.state.candidates.values():
        proposed = other.proposed
        same = tree_of(session.state, proposed.id) == code.tree and dict(proposed.settings) == dict(settings)
        if same and proposed.lane == "agent" and proposed.id != candidate:
            raise ActionError(f"the diff gives the same code as {proposed.id}; it was tried already")
    unchanged = session.workspace is not None and code.tree == session.workspace.stock
    if unchanged and dict(settings) == dict(session.stock_settings):
        raise ActionError("the diff only takes back what its base changed: that is stock, which is measured already")


def refusal(error: ChangeRefused) -> ActionError:
    """A refused patch in one sentence for the brain."""
    place = f"{error.where}: " if error.where else ""
    hint = f" ({error.hint})" if error.hint else ""
    return ActionError(f"the diff was refused ({error.reason}): {place}{error.message}{hint}")


def title_of(patch: Patch) -> str:
    """What people call a patch: its files and how much it changes."""
    added, removed = _size(patch)
    names = [file.path for file in patch.files]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"patch of {', '.join(names[:2])}{more} (+{added} -{removed})"


def _size(patch: Patch) -> tuple[int, int]:
    sides = [line.side for file in patch.files for hunk in file.hunks for line in hunk.lines]
    return sides.count(Side.ADDED), sides.count(Side.REMOVED)


def _recorded(session: Session, change: PatchChange, made: Made) -> PatchMade:
    added, removed = _size(made.applied.patch)
    return PatchMade(
        diff=change.diff,
        digest=change.digest,
        artifact=session.ledger.put_artifact(change.diff.encode()),
        files=change.files,
        added=added,
        removed=removed,
        notes=made.applied.notes,
    )


def _diffs(session: Session, digests: Iterable[str]) -> tuple[str, ...]:
    """The canonical diffs of recorded patches."""
    known = {
        c.proposed.patch.digest: c.proposed.patch.diff for c in session.state.candidates.values() if c.proposed.patch
    }
    return tuple(known[digest] for digest in digests)


def _risk(
    session: Session, workspace: Workspace, candidate: str, diffs: Iterable[str]
) -> tuple[tuple[RiskClass, str], ...]:
    """Of everything that differs from stock, so that steps add up to what a person would have to decide."""
    paths = dict.fromkeys(path for diff in diffs for path in parse(diff).paths)
    state = session.state
    stock, tree = workspace.ensure(STOCK, workspace.stock), workspace.path(candidate)
    files = [
        ChangedFile(path=path, was=path, before=_text(workspace, stock, path), after=_text(workspace, tree, path))
        for path in paths
    ]
    numeric = state.workspace is not None and state.workspace.numeric
    surroundings = Surroundings(numeric=numeric, own_modules=_own_modules(tree))
    return code_risk([file for file in files if file.before != file.after], surroundings)


def _text(workspace: Workspace, tree: Path, path: str) -> bytes | None:
    found = TreeFiles(tree).look(workspace.scope.place(path), LARGEST_FILE_BYTES)
    return found.content if found.kind == "file" else None


def _own_modules(tree: Path) -> frozenset[str]:
    """Top-level modules and packages that the sources themselves hold, at their root or in `src`."""
    roots = [folder for source in tree.iterdir() for folder in (source, source / "src") if folder.is_dir()]
    names = {entry.name.removesuffix(".py") for root in roots for entry in root.iterdir()}
    return frozenset(names | {source.name for source in tree.iterdir()})
