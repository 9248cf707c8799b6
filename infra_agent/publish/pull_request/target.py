"""Where the branch is put: the git directory of the harness, the commit it stands on, the source's place in the tree.

Code changes need the project's repository: the sources' own, or a checkout named with `--repo`. Launch settings can go
into any repository that holds configuration: a checkout, or the remote that is pushed to, whose default branch is
fetched. With neither, the package has no branch and says so.

Covered: choosing, and the commit of an earlier package, so that a second call goes on from it.
Not covered: the commits (`branch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra_agent.changes.git import Git
from infra_agent.changes.parse import parse
from infra_agent.errors import ConfigError, UsageError
from infra_agent.ledger.code_kinds import SourceTaken
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.publish.pull_request import remote as remotes
from infra_agent.publish.pull_request.branch import Source
from infra_agent.publish.pull_request.remote import Remote
from infra_agent.publish.pull_request.upstream import Upstream, file_at, hash_name, open_upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where commits go. `git` None: nowhere, the package has no branch. `base` None: the history begins here."""

    git: Git | None
    base: str | None = None
    base_branch: str = ""
    source: Source | None = None
    others: tuple[str, ...] = ()
    """Sources that are changed as well and lie elsewhere."""

    def read(self, path: str) -> bytes | None:
        """A file of the commit that the branch stands on."""
        return file_at(self.git, self.base, path) if self.git is not None and self.base is not None else None


def find_place(
    state: RunState, chain: Sequence[CandidateState], folder: Path, *,
    repo: Path | None, wanted: str, remote: Remote | None, pinned: str = "",
) -> Place:  # fmt: skip
    """The place for these changes. `folder`: where the git directory is, or will be. `pinned`: the commit last used."""
    touched = _touched(state, chain)
    if not touched:
        if repo is not None:
            return _in_checkout(folder, open_upstream(repo), pinned)
        return _in_remote(folder, remote, pinned) if remote is not None else Place(git=None)
    source = _chosen(touched, wanted)
    upstream = open_upstream(repo if repo is not None else Path(source.origin))
    place = _in_checkout(folder, upstream, pinned)
    assert place.git is not None
    assert place.base is not None
    only = state.workspace is not None and len(state.workspace.sources) == 1
    paths = [path for path in _paths(chain, source, only) if path]
    found = Source(
        name="" if only else source.name,
        prefix=_prefix(upstream, source, repo is None, place.git, place.base, paths),
        measured=source.name,
    )
    others = tuple(name for name in touched if name != source.name)
    return Place(git=place.git, base=place.base, base_branch=place.base_branch, source=found, others=others)


def _in_checkout(folder: Path, upstream: Upstream, pinned: str) -> Place:
    git = _git(folder, hash_name(upstream))
    upstream.connect(git)
    base = pinned if pinned and _holds(git, pinned) else upstream.commit
    if not _holds(git, base):
        raise UsageError(
            f"the repository does not hold its own commit {base[:12]}", where=str(upstream.repository.root)
        )
    return Place(git=git, base=base, base_branch=upstream.branch or "main")


def _in_remote(folder: Path, remote: Remote, pinned: str) -> Place:
    git = _git(folder, "sha1")
    branch, commit = remotes.default_branch(git, remote)
    if not commit:
        return Place(git=git, base=None, base_branch="main")
    fetched = remotes.fetch(git, remote, branch)
    return Place(git=git, base=pinned if pinned and _holds(git, pinned) else fetched, base_branch=branch)


def _git(folder: Path, name: str) -> Git:
    git = Git(directory=folder.absolute(), hash_name=name)
    if not (git.directory / "HEAD").is_file():
        git.create()
    return git


def _holds(git: Git, commit: str) -> bool:
    try:
        git.run("cat-file", "-e", f"{commit}^{{commit}}")
    except ConfigError:
        return False
    return True


def _touched(state: RunState, chain: Sequence[CandidateState]) -> dict[str, SourceTaken]:
    """The sources that patches of the chain change, by name."""
    taken = state.workspace.sources if state.workspace is not None else ()
    if len(taken) == 1:
        return {taken[0].name: taken[0]} if any(c.proposed.patch is not None for c in chain) else {}
    names = {path.partition("/")[0] for c in chain if c.proposed.patch for path in c.proposed.patch.files}
    return {source.name: source for source in taken if source.name in names}


def _chosen(touched: dict[str, SourceTaken], wanted: str) -> SourceTaken:
    if wanted:
        if wanted not in touched:
            raise UsageError(f"no change in source {wanted!r}", where="--source", hint=f"changed: {', '.join(touched)}")
        return touched[wanted]
    if len(touched) > 1:
        hint = f"one request for each: --source {next(iter(touched))}"
        raise UsageError(f"{len(touched)} sources are changed: {', '.join(touched)}", hint=hint)
    return next(iter(touched.values()))


def _paths(chain: Sequence[CandidateState], source: SourceTaken, only: bool) -> list[str]:
    """Files of the source that are there before and are changed, each once."""
    found = [file.old for c in chain if c.proposed.patch for file in parse(c.proposed.patch.diff).files if file.old]
    inside = found if only else [p.removeprefix(f"{source.name}/") for p in found if p.startswith(f"{source.name}/")]
    return list(dict.fromkeys(inside))


def _prefix(upstream: Upstream, source: SourceTaken, own: bool, git: Git, base: str, paths: Sequence[str]) -> str:
    """The source's folder in the repository, as it begins the paths there."""
    if own:
        inside = Path(source.origin).resolve().relative_to(upstream.repository.root.resolve()).as_posix()
        return "" if inside == "." else f"{inside}/"
    for folder in ("", f"{source.name}/", f"src/{source.name}/", f"python/{source.name}/", f"lib/{source.name}/"):
        if paths and all(file_at(git, base, f"{folder}{path}") is not None for path in paths):
            return folder
    raise UsageError(
        f"the checkout does not hold the changed files of {source.name}: {', '.join(paths[:4])}",
        where=str(upstream.repository.root),
        hint="name the project's own repository with --repo",
    )
