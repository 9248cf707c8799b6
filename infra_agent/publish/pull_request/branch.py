"""The branch: one commit for each accepted change, in a git directory of the harness, on top of the target's commit.

A commit depends on its parent, its change and the time of acceptance alone: made again, it has the same name, so that a
second push of the same run changes nothing. The user's checkout is never written.

Covered: code changes placed below the source's folder of the repository, configuration files, the check that what is
changed is what was measured, the check that every changed Python file compiles.
Not covered: pushing (`remote`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from infra_agent.changes.git import Blob, Git
from infra_agent.changes.hunks import edit
from infra_agent.changes.parse import parse
from infra_agent.changes.patch import FilePatch, Kind
from infra_agent.errors import UsageError
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.publish.pull_request.upstream import entry_at, file_at

_PLAIN = "100644"
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A commit of the branch, and the candidate that it carries."""

    candidate: str
    commit: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of the run: its name in patches' paths (empty: it is the only one), its folder in the repository."""

    name: str
    prefix: str
    measured: str
    """The source's folder in the run's own history."""

    def inside(self, path: str) -> str | None:
        """A patch's path below this source; None when it belongs to another."""
        if not self.name:
            return path
        return path.removeprefix(f"{self.name}/") if path.startswith(f"{self.name}/") else None

    def place(self, path: str) -> str:
        """A path of the source as the repository knows it."""
        return f"{self.prefix}{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a branch is made from. `files` gives a change's configuration files; `message` its commit message."""

    git: Git
    branch: str
    base: str | None
    source: Source | None
    files: Callable[[CandidateState], Mapping[str, bytes]]
    message: Callable[[CandidateState], str]


def build(work: Work, chain: Sequence[CandidateState], state: RunState) -> tuple[Made, ...]:
    """Make the branch anew; its commits. UsageError when a change does not fit, ConfigError when git fails."""
    parent, made = work.base, []
    for candidate in chain:
        blobs = _blobs(work, parent, candidate)
        if not blobs:
            continue
        _require_compiles(blobs)
        parent = work.git.commit(work.branch, parent, blobs, work.message(candidate), _when_s(candidate, state))
        names = tuple(blob.path for blob in blobs)
        made.append(Made(candidate=candidate.proposed.id, commit=parent, files=names))
    return tuple(made)


def require_as_measured(git: Git, base: str, history: Git, source: Source, paths: Sequence[str]) -> None:
    """UsageError unless each file that a change touches is, in the target's commit, what it was when measured."""
    changed = []
    for path in paths:
        inside = source.inside(path)
        if inside is None:
            continue
        if file_at(git, base, source.place(inside)) != file_at(history, "stock", f"{source.measured}/{inside}"):
            changed.append(source.place(inside))
    if changed:
        raise UsageError(
            f"the target's commit {base[:12]} does not hold what was measured: {', '.join(changed[:_MOST_NAMED])}",
            lines=changed,
            hint="commit what the run was made on, or make a new run on what is committed now",
        )


def differing(git: Git, base: str, history: Git, source: Source) -> tuple[str, ...]:
    """Files of the measured sources that are others, or not there, in the target's commit."""
    if git.hash_name != history.hash_name:
        return ()
    measured = _listing(history, "stock", f"{source.measured}/")
    target = _listing(git, base, source.prefix)
    return tuple(source.place(path) for path, name in measured.items() if target.get(path) != name)


def _listing(git: Git, commit: str, prefix: str) -> dict[str, str]:
    found = {}
    for entry in git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        head, _, path = entry.partition(b"\t")
        name = path.decode("utf-8", "surrogateescape")
        if name.startswith(prefix):
            found[name.removeprefix(prefix)] = head.decode().split(" ")[2]
    return found


def _blobs(work: Work, parent: str | None, candidate: CandidateState) -> list[Blob]:
    blobs = [Blob(path, _PLAIN, content) for path, content in work.files(candidate).items()]
    patch = candidate.proposed.patch
    if patch is None or work.source is None or parent is None:
        return blobs
    for file in parse(patch.diff).files:
        blobs += _patched(work.git, parent, file, work.source)
    # A directory may take the place of a file: removals first.
    return sorted(blobs, key=lambda blob: blob.content is not None)


def _patched(git: Git, parent: str, file: FilePatch, source: Source) -> list[Blob]:
    old = source.inside(file.old) if file.old is not None else None
    new = source.inside(file.new) if file.new is not None else None
    if old is None and new is None:
        return []
    entry = entry_at(git, parent, source.place(old)) if old is not None else None
    if (entry is None) is not (file.kind is Kind.CREATE):
        raise UsageError(f"the target's commit {'lacks' if old else 'has already'} {file.path}")
    before = git.run("cat-file", "blob", entry[1]) if entry is not None else None
    after = edit(before, file).content
    blobs = []
    if old is not None and old != new:
        blobs.append(Blob(source.place(old), _PLAIN, None))
    if new is not None and after is not None:
        blobs.append(Blob(source.place(new), entry[0] if entry is not None else _PLAIN, after))
    return blobs


def _require_compiles(blobs: Sequence[Blob]) -> None:
    """Every commit of the branch builds, as far as that can be told without the project's own tools."""
    for blob in blobs:
        if blob.content is not None and blob.path.endswith(".py"):
            try:
                compile(blob.content, blob.path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise UsageError(f"{blob.path} would not compile after the change: {error}") from None


def _when_s(candidate: CandidateState, state: RunState) -> int:
    stamp = next(event.ts for event in state.events if event.data is candidate.accepted)
    return int(datetime.fromisoformat(stamp).timestamp())
