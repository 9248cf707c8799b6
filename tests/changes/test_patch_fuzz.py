"""Patches by chance: no path leaves the tree, nothing is lost on the way, and whatever is applied can be taken back."""

from __future__ import annotations

import contextlib
import difflib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from changes.trees import FASTER, SCOPE, SERVER, apply, everything, tree_with
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.changes.apply import revert_patch
from infra_agent.changes.parse import parse
from infra_agent.changes.patch import Side, render
from infra_agent.errors import ChangeRefused

pytestmark = pytest.mark.requirement("P1")
STEPS = st.sampled_from(
    ["..", ".", "", "a", "pkg", "x.py", "link", "linked", ".git", "~", "C:", "\\", "..\\..", "%2e%2e", "\0", "\n", "\t",
     "\u2025", "\uff0e\uff0e", "e\u0301", "outside", "a b", '"', "nul", " ", "...", "-rf", "/", "//", "/tmp",
     "\\056\\056"]
)  # fmt: skip
PATHS = st.one_of(
    st.lists(STEPS, min_size=1, max_size=6).map("/".join),
    st.lists(STEPS, max_size=4).map("".join),
    st.text(max_size=40),
)  # fmt: skip
SHAPES = st.sampled_from(
    [
        "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-x\n+y\n",
        "--- {0}\n+++ {0}\n@@ -1 +1 @@\n-x\n+y\n",
        "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+y\n",
        "diff --git a/{0} b/{0}\nnew file mode 100644\nindex 0000000..e69de29\n",
        'diff --git "a/{0}" "b/{0}"\nnew file mode 100644\n--- /dev/null\n+++ "b/{0}"\n@@ -0,0 +1 @@\n+y\n',
        "diff --git a/x.py b/{0}\nsimilarity index 100%\nrename from x.py\nrename to {0}\n",
        "diff --git a/{0} b/moved.py\nsimilarity index 100%\nrename from {0}\nrename to moved.py\n",
        "diff --git a/{0} b/{0}\ndeleted file mode 100644\n--- a/{0}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
    ]
)
LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "\n", "  a\n", "- a\n", "+ b\n", "@@ x\n", "-- a\n", "++ b\n", "\\ c\n"]),
    max_size=14,
)


@contextmanager
def world() -> Iterator[Path]:
    """A tree with links that lead outside, and an outside to be kept as it is."""
    folder = Path(tempfile.mkdtemp(prefix="patch-fuzz-"))
    try:
        (folder / "outside").mkdir()
        (folder / "outside/x.py").write_text("x\n")
        tree_with(folder / "tree", {"x.py": "x\n", "pkg/x.py": "x\n", "a": "x\n"})
        (folder / "tree/app/link").symlink_to(folder / "outside")
        (folder / "tree/app/linked").symlink_to(folder / "outside/x.py")
        yield folder
    finally:
        shutil.rmtree(folder)


@settings(max_examples=400, deadline=None)
@given(path=PATHS, shape=SHAPES)
def test_no_path_is_read_or_written_outside_the_tree(path: str, shape: str) -> None:
    with world() as folder:
        before = everything(folder)
        files = tree_with(folder / "tree", {})
        applied = None
        with contextlib.suppress(ChangeRefused):
            applied = apply(files, shape.format(path))
        after = everything(folder)
        if applied is None:
            assert after == before
            return
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        assert all(name.startswith("tree/app/") for name in changed)
        assert not changed & {"tree/app/link", "tree/app/linked"}
        assert not any(name.startswith("tree/app/link/") for name in changed)
        revert_patch(files, applied, SCOPE)
        assert everything(folder) == before


@settings(max_examples=300, deadline=None)
@given(old=LINES, new=LINES, context=st.integers(0, 4))
def test_a_diff_of_any_two_texts_turns_one_into_the_other_and_back(
    old: list[str], new: list[str], context: int
) -> None:
    diff = "".join(difflib.unified_diff(old, new, "a/x", "b/x", n=context))
    with tempfile.TemporaryDirectory() as name:
        files = tree_with(Path(name), {"x": "".join(old)})
        blind = any(not hunk.old() for hunk in parse(diff).files[0].hunks) if diff else True
        if blind and old:
            with pytest.raises(ChangeRefused):
                apply(files, diff)
            return
        if not diff:
            return
        applied = apply(files, diff)
        assert (Path(name) / "app/x").read_text() == "".join(new)
        assert parse(render(applied.patch)).digest == applied.patch.digest
        revert_patch(files, applied, SCOPE)
        assert (Path(name) / "app/x").read_text() == "".join(old)


EDITS = st.sampled_from(["drop", "double", "swap", "cut", "blank", "space", "number"])


@settings(max_examples=500, deadline=None)
@given(edits=st.lists(st.tuples(EDITS, st.integers(0, 40)), min_size=1, max_size=3))
def test_a_damaged_diff_is_refused_or_applied_in_full(edits: list[tuple[str, int]]) -> None:
    lines = FASTER.split("\n")
    for edit, number in edits:
        lines = _damage(lines, edit, number % max(1, len(lines)))
    with tempfile.TemporaryDirectory() as name:
        files = tree_with(Path(name), {"server.py": SERVER})
        before = everything(Path(name))
        try:
            applied = apply(files, "\n".join(lines))
        except ChangeRefused:
            assert everything(Path(name)) == before
            return
        # What stands before the first pair of headers is prose, whatever it begins with.
        begin = next((at for at in range(len(lines)) if _is_header(lines, at)), 0)
        rest = range(begin, len(lines))
        sent = [lines[at] for at in rest if lines[at][:1] in ("+", "-") and not _is_header(lines, at)]
        kept = [line for file in applied.patch.files for hunk in file.hunks for line in hunk.lines]
        assert len(sent) == sum(line.side is not Side.CONTEXT for line in kept)
        revert_patch(files, applied, SCOPE)
        assert everything(Path(name)) == before


def _is_header(lines: list[str], at: int) -> bool:
    """One of the two lines that name a file. Alone, inside a hunk, such a line is a line like any other."""
    first, second = (at, at + 1) if lines[at].startswith("--- ") else (at - 1, at)
    pair = first >= 0 and second < len(lines)
    return pair and lines[first].startswith("--- ") and lines[second].startswith("+++ ")


def _damage(lines: list[str], edit: str, at: int) -> list[str]:
    if not lines:
        return lines
    head, line, tail = lines[:at], lines[at], lines[at + 1 :]
    changed = {
        "drop": [], "double": [line, line], "swap": [*tail[:1], line], "cut": [line[: len(line) // 2]], "blank": [""],
        "space": [f" {line}"], "number": [line.replace("4", "3", 1)],
    }[edit]  # fmt: skip
    return [*head, *changed, *(tail[1:] if edit == "swap" else tail)]


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=300), st.text(alphabet="@+- \n\\abdifgt/,0123", max_size=400)))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(ChangeRefused):
        parse(text)
    with contextlib.suppress(ChangeRefused):
        parse(f"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n{text}")


HOSTILE = {
    "header of spaces": "diff --git " + "a/ b/" * 180_000,
    "header of addresses": "diff --git " + "x:// " * 190_000,
    "many escapes": '--- "' + "\\1" * 400_000 + '"\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n',
    "many empty hunks": "--- a/x\n+++ b/x\n" + "@@ -1 +1 @@\n" * 80_000,
    "huge numbers": f"--- a/x\n+++ b/x\n@@ -{'9' * 500_000} +1 @@\n-x\n+y\n",
    "one huge hunk": "--- a/x\n+++ b/x\n@@ -1,400000 +1,1 @@\n" + "-\n" * 400_000 + "+x\n",
    "ten megabytes": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+" + "y" * 10_000_000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_diff_is_read_in_bounded_time(tmp_path: Path, case: str) -> None:
    files = tree_with(tmp_path, {"x": "\n" * 400_000})
    began = time.process_time()
    with contextlib.suppress(ChangeRefused):
        apply(files, HOSTILE[case])
    assert time.process_time() - began < 30
