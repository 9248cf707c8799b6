"""Which files a patch may touch, and where its paths lie: the stack file's words, and what is protected always.

Covered: the globs of `patchable` and `protected` (git's pattern language, from the source's root), the files that a run
is judged by, existing tests, files that an interpreter runs at its start, the stack file, run directories.
Not covered: what a file holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

from infra_agent.changes.diff_paths import folded
from infra_agent.changes.refusal import Reason, refused

STACK_FILE = "infra-agent.toml"
_AT_START = frozenset({"sitecustomize.py", "usercustomize.py", "conftest.py"})
_TEST_FOLDERS = frozenset({"tests", "test", "testing"})
_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`names` of the sources; `judged_by` are paths below them (as in the tree) that decide how a run is judged."""

    names: tuple[str, ...]
    patchable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    judged_by: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Entries that every candidate shares with the original: they are not in the tree."""
    trusted: bool = False
    """Set to take back what was in scope when it was applied: a test that was added, for example."""

    def place(self, path: str) -> str:
        """The path in the tree, below its source's name. With one source, a patch names paths from its root."""
        if len(self.names) == 1:
            return f"{self.names[0]}/{path}"
        name, _, rest = path.partition("/")
        if name not in self.names or not rest:
            known = ", ".join(self.names[:_SHOWN])
            hint = f"begin the path with one of: {known}"
            raise refused(Reason.OUT_OF_SCOPE, "the path names none of the stack's sources", file=path, hint=hint)
        return path

    def require(self, path: str, *, exists: bool) -> None:
        """Refuse a path that may not be changed. `exists`: the file is there already."""
        if self.trusted:
            return
        reason = self._protection(path, exists, _spec(self.protected))
        if reason:
            raise refused(Reason.PROTECTED, f"the file may not be changed: {reason}", file=path)
        if self.patchable and not _spec(self.patchable).match_file(path):
            hint = f"stack.patchable allows: {', '.join(self.patchable[:_SHOWN])}"
            raise refused(Reason.OUT_OF_SCOPE, "the file lies outside what may be patched", file=path, hint=hint)

    def allowed(self, paths: Iterable[str]) -> Iterator[str]:
        """Those of the files, all of them there, that may be changed."""
        protected, patchable = _spec(self.protected), _spec(self.patchable)
        for path in paths:
            in_scope = not self.patchable or patchable.match_file(path)
            if in_scope and not self._protection(path, True, protected):
                yield path

    def _protection(self, path: str, exists: bool, protected: GitIgnoreSpec) -> str:
        place = self.place(path)
        parts = [folded(part) for part in place.split("/")]
        name = parts[-1]
        if name == STACK_FILE:
            return "it describes the stack and how it is measured"
        if _within(place, self.judged_by):
            return "the run is judged by it"
        if _within(place, self.shared):
            return "it is not source: it is ignored by version control, or too large"
        if name in _AT_START or name.endswith(".pth"):
            return "an interpreter runs it by itself, before anything can look"
        if exists and (_TEST_FOLDERS & set(parts[:-1]) or name.startswith("test_") or name.endswith("_test.py")):
            return "what tests the stack is not changed with it; a new test may be added"
        return "stack.protected names it" if protected.match_file(path) else ""


def _spec(patterns: Sequence[str]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(patterns)


def _within(place: str, roots: Sequence[str]) -> bool:
    mine = folded(place)
    return any(mine == folded(root) or mine.startswith(folded(root) + "/") for root in roots)
