"""The user's own repository, as a pull request needs it: where its HEAD stands, and where the sources lie in it.

Only files are looked at, and objects are read through a git directory of the harness: nothing that the repository
configures (hooks, filters, monitors) is put into effect, and nothing is written there.

Covered: branches, detached heads, packed references, linked work trees, shallow clones.
Not covered: the reftable format.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from infra_agent.changes.git import Git
from infra_agent.changes.repository import Repository, find_repository
from infra_agent.errors import UsageError

_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REFERENCE = re.compile(r"refs/[A-Za-z0-9_./@+-]+")
_LINK = "120000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A repository with the commit that a branch is put on. `branch`: checked out there; empty when detached."""

    repository: Repository
    commit: str
    branch: str

    def connect(self, git: Git) -> None:
        """Let the harness's git directory read this repository's objects; they are shared, never written."""
        info = git.directory / "objects/info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "alternates").write_text(f"{self.repository.common.absolute() / 'objects'}\n")
        shallow = self.repository.common / "shallow"
        if shallow.is_file():
            shutil.copyfile(shallow, git.directory / "shallow")


def open_upstream(folder: Path) -> Upstream:
    """The repository that holds the folder. UsageError when there is none, or nothing was ever committed."""
    repository = find_repository(folder.resolve())
    if repository is None:
        hint = "name a checkout of the project with --repo DIRECTORY"
        raise UsageError(f"not inside a git repository: {folder}", hint=hint)
    if (repository.common / "reftable").is_dir():
        hint = "make a clone with --ref-format=files and name it with --repo"
        raise UsageError("the repository keeps its references in the reftable format", where=str(folder), hint=hint)
    commit, branch = _head(repository)
    return Upstream(repository=repository, commit=commit, branch=branch)


def hash_name(upstream: Upstream | None) -> str:
    """The object format that the harness's git directory needs."""
    return "sha256" if upstream is not None and len(upstream.commit) == 64 else "sha1"


def file_at(git: Git, commit: str, path: str) -> bytes | None:
    """A regular file of a commit; None when there is none of this name."""
    entry = entry_at(git, commit, path)
    return None if entry is None or entry[0] == _LINK else git.run("cat-file", "blob", entry[1])


def entry_at(git: Git, commit: str, path: str) -> tuple[str, str] | None:
    """Mode and object name of a blob in a commit."""
    listed = git.run("ls-tree", "-z", "--full-tree", commit, "--", path)
    if not listed:
        return None
    mode, kind, name = listed.split(b"\t", 1)[0].decode().split(" ")
    return (mode, name) if kind == "blob" else None


def _head(repository: Repository) -> tuple[str, str]:
    text = _text(repository.directory / "HEAD")
    if _OBJECT.fullmatch(text):
        return text, ""
    reference = text.removeprefix("ref:").strip()
    if not _REFERENCE.fullmatch(reference) or ".." in reference:
        raise UsageError("the repository's HEAD cannot be read", where=str(repository.directory / "HEAD"))
    for folder in (repository.directory, repository.common):
        found = _text(folder / reference)
        if _OBJECT.fullmatch(found):
            return found, reference.removeprefix("refs/heads/")
    for line in _text(repository.common / "packed-refs").splitlines():
        name, _, packed = line.partition(" ")
        if packed == reference and _OBJECT.fullmatch(name):
            return name, reference.removeprefix("refs/heads/")
    raise UsageError(f"{reference} has no commit yet", where=str(repository.root), hint="commit the sources first")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
