"""A run's own copy of the sources: one tree for stock and one for each candidate, and a git history of them all.

    runs/<id>/workspace/<candidate>/<source>/...   trees, complete or absent
    runs/<id>/git/                                 one branch per candidate, one commit per change

A tree is built under another name and renamed when it is complete, so a kill leaves a whole tree or none. A tree that
is missing or was touched is made again from its commit; its digest, as the ledger has it, must then be right.

Covered: building from the originals, candidates on any base, checking, making again, disk use.
Not covered: what mounts a tree over its original (`harness.sandbox`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra_agent.changes.apply import Applied, apply_patch, revert_patch
from infra_agent.changes.copying import copy_files, remove_tree, require_space
from infra_agent.changes.git import Blob, Git
from infra_agent.changes.listing import list_source
from infra_agent.changes.patch import Patch
from infra_agent.changes.scope import Scope
from infra_agent.changes.sources import Source
from infra_agent.changes.tree import Entry, digest_of, files_below, tree_entries
from infra_agent.changes.tree_files import TreeFiles
from infra_agent.errors import ConfigError

STOCK = "stock"
MAX_TREES = 6
"""Candidate trees kept on disk; an older one is made again when it is needed."""
_PART = ".part"
_LINK = "120000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlaid:
    """One source as it was taken into the run. `shared` entries and `holes` are no part of the tree.

    A shared entry stays what it is in the original; a hole is a directory that candidates see as empty.
    """

    name: str
    origin: Path
    kind: str
    files: int
    size_bytes: int
    shared: tuple[str, ...] = ()
    holes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A candidate's tree: the patch as it was applied, and the digest before and after."""

    applied: Applied
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The trees of one run. `stock` is the digest of the unpatched tree."""

    run_dir: Path
    sources: tuple[Overlaid, ...]
    scope: Scope
    stock: str
    _used: list[str] = field(default_factory=list)

    @property
    def git(self) -> Git:
        """The history."""
        return Git(directory=self.run_dir.absolute() / "git")

    def path(self, candidate: str) -> Path:
        """Where a candidate's tree is, or will be."""
        return self.run_dir.absolute() / "workspace" / candidate

    def overlays(self, candidate: str) -> dict[Path, Path | None]:
        """Original → what stands in its place for this candidate (None: an empty directory), outermost first."""
        mounts: dict[Path, Path | None] = {}
        for source in sorted(self.sources, key=lambda source: len(source.origin.parts)):
            mounts[source.origin] = self.path(candidate) / source.name
            mounts |= {source.origin / path: source.origin / path for path in source.shared}
            mounts |= {source.origin / path: None for path in source.holes}
        return mounts

    def add(self, candidate: str, base: str, base_digest: str, patch: Patch, message: str, when_s: int) -> Made:
        """Make a candidate's tree: its base with a patch. Raises ChangeRefused, and then there is no tree."""
        source = self.ensure(base, base_digest)
        self._make_room(candidate)
        part = self._begin(candidate)
        try:
            copy_files(source, sorted(path for path, _ in files_below(source, without=self.scope.shared)), part)
            self._complete(part)
            before = self._entries(part)
            if digest_of(before) != base_digest:
                raise ConfigError(f"the tree of {base} changed while it was copied", where=str(source))
            applied = apply_patch(TreeFiles(part), patch, self.scope)
            after = self._entries(part)
            _require_only(before, after, {written.place for written in applied.written})
            self.git.commit(candidate, self._commit_of(base), _blobs(applied), message, when_s)
        except BaseException:
            remove_tree(part)
            raise
        self._finish(part, candidate)
        return Made(applied=applied, before=base_digest, after=digest_of(after))

    def ensure(self, candidate: str, digest: str) -> Path:
        """The candidate's tree, whole and as it was judged: made again from its commit when it is not."""
        path = self.path(candidate)
        if path.is_dir() and digest_of(self._entries(path)) == digest:
            self._remember(candidate)
            return path
        self._make_room(candidate)
        part = self._begin(candidate)
        _write_blobs(part, self.git.blobs(self._commit_of(candidate)))
        self._complete(part)
        if digest_of(self._entries(part)) != digest:
            remove_tree(part)
            hint = "begin a new run: this one cannot be continued honestly"
            raise ConfigError(
                f"the run's git directory no longer holds {candidate} as it was", where=str(path), hint=hint
            )
        self._finish(part, candidate)
        return path

    def revert(self, candidate: str, made: Made) -> None:
        """Take a candidate's patch back in its own tree; ConfigError unless that gives its base to the byte."""
        path = self.path(candidate)
        revert_patch(TreeFiles(path), made.applied, self.scope)
        if digest_of(self._entries(path)) != made.before:
            raise ConfigError("reverting did not give the tree back as it was", where=str(path))

    def remove_leftovers(self) -> None:
        """Remove half-built trees of a session that was killed."""
        for part in (self.run_dir / "workspace").glob(f"*{_PART}"):
            remove_tree(part)

    def remove_trees(self) -> None:
        """Give the disk space back at the end of a run: every tree can be made again from its commit."""
        remove_tree(self.run_dir.absolute() / "workspace")

    def link_shared(self, candidate: str) -> None:
        """Without a sandbox nothing is mounted: shared entries of this tree become links to the originals."""
        for source in self.sources:
            for name in source.shared:
                place = self.path(candidate) / source.name / name
                if not place.is_symlink():
                    place.rmdir() if place.is_dir() else place.unlink()
                    place.symlink_to(source.origin / name)

    def _entries(self, root: Path) -> dict[str, Entry]:
        return tree_entries(root, self.scope.shared)

    def _commit_of(self, candidate: str) -> str:
        found = self.git.head(candidate)
        if found is None:
            hint = "begin a new run: this one cannot be continued honestly"
            raise ConfigError(
                f"the run's git directory does not hold {candidate}", where=str(self.git.directory), hint=hint
            )
        return found

    def _begin(self, candidate: str) -> Path:
        part = self.path(f"{candidate}{_PART}")
        self._discard(candidate)
        if part.exists():
            remove_tree(part)
        part.mkdir(parents=True)
        require_space(part, sum(source.size_bytes for source in self.sources))
        return part

    def _complete(self, part: Path) -> None:
        """Directories and files for shared entries and holes to be mounted on."""
        for source in self.sources:
            for name in (*source.shared, *source.holes):
                place = part / source.name / name
                place.parent.mkdir(parents=True, exist_ok=True)
                if (source.origin / name).is_dir() or name in source.holes:
                    place.mkdir(exist_ok=True)
                else:
                    place.touch()

    def _finish(self, part: Path, candidate: str) -> None:
        part.rename(self.path(candidate))
        self._remember(candidate)

    def _remember(self, candidate: str) -> None:
        if candidate in self._used:
            self._used.remove(candidate)
        self._used.append(candidate)

    def _make_room(self, wanted: str) -> None:
        """Remove the tree that was not used for longest; every tree can be made again."""
        folder = self.run_dir.absolute() / "workspace"
        folder.mkdir(exist_ok=True)
        known = [path.name for path in folder.iterdir() if path.suffix != _PART]
        others = [name for name in known if name not in (STOCK, wanted)]
        oldest = sorted(others, key=lambda name: self._used.index(name) if name in self._used else -1)
        for name in oldest[: max(0, len(others) - MAX_TREES + 1)]:
            self._discard(name)

    def _discard(self, candidate: str) -> None:
        """Remove a tree, under another name: one that a kill leaves half removed must not look like a whole one."""
        tree, gone = self.path(candidate), self.path(f"{candidate}-gone{_PART}")
        if not tree.exists():
            return
        if gone.exists():
            remove_tree(gone)
        tree.rename(gone)
        remove_tree(gone)


def build_workspace(
    run_dir: Path,
    sources: Iterable[Source],
    *,
    patchable: tuple[str, ...],
    protected: tuple[str, ...],
    judged_by: Iterable[Path],
    when_s: int,
) -> Workspace:
    """Copy the sources into a new run as the tree of stock. The originals are only read. Raises ConfigError."""
    part = run_dir / "workspace" / f"{STOCK}{_PART}"
    if part.exists():
        remove_tree(part)
    overlaid = tuple(_take(source, run_dir, part) for source in sources)
    _require_apart(overlaid)
    scope = scope_of(overlaid, patchable=patchable, protected=protected, judged_by=judged_by)
    workspace = Workspace(run_dir=run_dir, sources=overlaid, scope=scope, stock=digest_of(tree_entries(part)))
    workspace.git.create()
    workspace.git.commit(STOCK, None, _tree_blobs(part), "stock: the sources as they were when the run began", when_s)
    workspace._complete(part)
    workspace._finish(part, STOCK)
    return workspace


def scope_of(
    sources: tuple[Overlaid, ...], *, patchable: tuple[str, ...], protected: tuple[str, ...], judged_by: Iterable[Path]
) -> Scope:
    """What a patch may touch: places in the tree of everything that a run is judged by."""
    judged = [path.resolve() for path in judged_by]
    inside = [
        f"{source.name}/{path.relative_to(source.origin).as_posix()}"
        for source in sources
        for path in judged
        if path.is_relative_to(source.origin) and path != source.origin
    ]
    shared = [f"{source.name}/{name}" for source in sources for name in (*source.shared, *source.holes)]
    return Scope(
        names=tuple(source.name for source in sources),
        patchable=patchable,
        protected=protected,
        judged_by=tuple(inside),
        shared=tuple(shared),
    )


def _take(source: Source, run_dir: Path, part: Path) -> Overlaid:
    runs = [path.resolve() for path in (run_dir.parent, run_dir)]
    listing = list_source(source.origin, runs, installed=source.kind == "package")
    if not listing.files:
        raise ConfigError(f"the source holds no file that could be patched: {source.origin}", where="stack.sources")
    needed = sum((source.origin / path).lstat().st_size for path in listing.files)
    part.mkdir(parents=True, exist_ok=True)
    require_space(part, needed)
    size_bytes = copy_files(source.origin, listing.files, part / source.name)
    holes = [path.relative_to(source.origin).as_posix() for path in runs if path.is_relative_to(source.origin)]
    return Overlaid(
        name=source.name,
        origin=source.origin,
        kind=source.kind,
        files=len(listing.files),
        size_bytes=size_bytes,
        shared=listing.shared,
        holes=tuple([hole for hole in holes if hole != "."][:1]),
    )


def _require_apart(sources: tuple[Overlaid, ...]) -> None:
    """A source may lie inside another only where that one's files are not copied: in its virtual environment."""
    for inner in sources:
        for outer in sources:
            if inner is outer or not inner.origin.is_relative_to(outer.origin):
                continue
            if not any(inner.origin.is_relative_to(outer.origin / entry) for entry in outer.shared):
                message = f"one source lies inside another: {inner.origin} in {outer.origin}"
                raise ConfigError(message, where="stack.sources", hint="name the outer one only")


def _require_only(before: Mapping[str, Entry], after: Mapping[str, Entry], places: set[str]) -> None:
    """The patch's own files changed, and nothing else did."""
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if not changed <= places:
        raise ConfigError(f"the patch changed files that it does not name: {', '.join(sorted(changed - places))}")


def _blobs(applied: Applied) -> list[Blob]:
    """A patch as changes of a commit, removals first: a directory may take the place of a file."""
    blobs = [
        Blob(written.place, "100755" if written.mode_after & 0o100 else "100644", written.after)
        for written in applied.written
    ]
    return sorted(blobs, key=lambda blob: blob.content is not None)


def _tree_blobs(root: Path) -> Iterator[Blob]:
    for path, entry in tree_entries(root).items():
        place = root / path
        content = os.fsencode(os.readlink(place)) if entry.mode == _LINK else place.read_bytes()  # noqa: PTH115
        yield Blob(path, entry.mode, content)


def _write_blobs(root: Path, blobs: Iterable[Blob]) -> None:
    """A commit's files in a new directory; links last, so that nothing is ever written through one."""
    files = TreeFiles(root)
    links: list[Blob] = []
    for blob in blobs:
        if blob.mode == _LINK:
            links.append(blob)
        elif blob.content is not None:
            files.write(blob.path, blob.content, 0o755 if blob.mode == "100755" else 0o644)
    for link in links:
        place = root / link.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.fsdecode(link.content or b""))
