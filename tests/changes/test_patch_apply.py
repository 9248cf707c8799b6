"""Patches that fit: applied exactly, corrected only where one place is possible, printed canonically, taken back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from changes.trees import FASTER, SCOPE, SERVER, apply, everything, git, git_diff, text_of, tree_with

from infra_agent.changes.apply import plan_patch, revert_patch
from infra_agent.changes.parse import parse
from infra_agent.changes.patch import Kind, render
from infra_agent.changes.refusal import Reason
from infra_agent.errors import ChangeRefused

pytestmark = pytest.mark.requirement("P1")
FAST_SERVER = SERVER.replace("    time.sleep(DELAY_S)\n", "")
TWINS = "def a():\n    wait()\n    return 1\n\n\ndef b():\n    wait()\n    return 1\n"


def twin_hunk(header: str) -> str:
    return f"--- a/twins.py\n+++ b/twins.py\n{header}\n-    wait()\n     return 1\n"


def test_a_diff_is_applied_and_taken_back_to_the_byte(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER})
    before = everything(tmp_path)
    applied = apply(files, FASTER)
    assert text_of(tmp_path) == FAST_SERVER
    assert applied.notes == ()
    revert_patch(files, applied, SCOPE)
    assert everything(tmp_path) == before


WRITINGS = {
    "without git's header": FASTER.partition("\n")[2],
    "without prefixes": FASTER.partition("\n")[2].replace("a/server", "server").replace("b/server", "server"),
    "with time stamps": FASTER.replace("--- a/server.py", "--- a/server.py\t2026-11-30 12:00:00.000000000 +0000"),
    "with an index line": FASTER.replace("--- a", "index 83db48f..bf2e0a1 100644\n--- a", 1),
    "with an empty context line": FASTER.replace("\n \n \n", "\n\n\n"),
    "without a newline at the end of the diff": FASTER.removesuffix("\n"),
    "with blank lines behind": FASTER + "\n\n",
    "with words before": "Removes the sleep.\n\n" + FASTER,
    "as git mails it": f"From 1 Mon\nSubject: x\n---\n server.py | 1 -\n\n{FASTER}-- \n2.39.5\n\n",
    "with a byte order mark": "\ufeff" + FASTER,
    "with quoted names": FASTER.replace("a/server.py", '"a/server.py"').replace("b/server.py", '"b/server.py"'),
    "with mnemonic prefixes": FASTER.partition("\n")[2].replace("a/server", "i/server").replace("b/server", "w/server"),
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_the_same_change_in_any_writing_has_the_same_canonical_form(tmp_path: Path, writing: str) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER})
    applied = apply(files, WRITINGS[writing])
    assert text_of(tmp_path) == FAST_SERVER
    assert render(applied.patch) == FASTER
    assert applied.patch.digest == parse(FASTER).digest


CORRECTED = {
    "a count too large": FASTER.replace("-4,5 +4,4", "-4,9 +4,8"),
    "a count too small": FASTER.replace("-4,5 +4,4", "-4,2 +4,1"),
    "counts of the sides swapped": FASTER.replace("-4,5 +4,4", "-4,4 +4,5"),
    "a wrong start": FASTER.replace("-4,5 +4,4", "-40,5 +40,4"),
    "a start of nothing": FASTER.replace("-4,5 +4,4", "-0,5 +0,4"),
    "a wrong start and wrong counts": FASTER.replace("-4,5 +4,4", "-1,1 +1,1"),
}


@pytest.mark.parametrize("case", CORRECTED)
def test_a_wrong_header_is_corrected_where_only_one_place_is_possible(tmp_path: Path, case: str) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER})
    applied = apply(files, CORRECTED[case])
    assert text_of(tmp_path) == FAST_SERVER
    assert len(applied.notes) == 1
    assert "server.py, hunk 1" in applied.notes[0]
    assert render(applied.patch) == FASTER


def test_a_true_start_chooses_among_equal_places(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"twins.py": TWINS})
    apply(files, twin_hunk("@@ -7,2 +7,1 @@"))
    assert text_of(tmp_path, "twins.py") == TWINS.replace("def b():\n    wait()\n", "def b():\n")


@pytest.mark.parametrize("header", ["@@ -3,2 +3,1 @@", "@@ -7,9 +7,8 @@"])
def test_equal_places_are_never_guessed_between(tmp_path: Path, header: str) -> None:
    files = tree_with(tmp_path, {"twins.py": TWINS})
    with pytest.raises(ChangeRefused) as caught:
        apply(files, twin_hunk(header))
    assert caught.value.reason == Reason.HUNK_AMBIGUOUS
    assert "lines 2, 7" in caught.value.message
    assert text_of(tmp_path, "twins.py") == TWINS


MISMATCHES = {
    "other indentation": (FASTER.replace("-    time", "-\ttime"), "white space"),
    "other line ends": (FASTER.replace("\n-    time.sleep(DELAY_S)\n", "\n-    time.sleep(DELAY_S)\r\n"), "line ends"),
    "space at the end of a line": (FASTER.replace("(prompt):", "(prompt): "), "white space"),
    "context that is not there": (FASTER.replace(" def answer", " def reply"), "'def reply(prompt):'"),
    "a last line without newline": (FASTER + "\\ No newline at end of file\n", "without a newline"),
    "no context at all": ("--- a/server.py\n+++ b/server.py\n@@ -2,0 +3 @@\n+import os\n", "cannot be checked"),
    "hunks in the wrong order": (
        "--- a/server.py\n+++ b/server.py\n@@ -7 +7 @@\n-    time.sleep(DELAY_S)\n+    pass\n@@ -1 +1 @@\n"
        "-import time\n+import os\n", "before or over",
    ),
    "hunks that overlap": (
        "--- a/server.py\n+++ b/server.py\n@@ -1,2 +1,2 @@\n-import time\n+import os\n \n@@ -2,2 +2,2 @@\n \n"
        "-DELAY_S = 0.05\n+DELAY_S = 0\n", "before or over",
    ),
    "a deletion that leaves lines": (
        "diff --git a/server.py b/server.py\ndeleted file mode 100644\n--- a/server.py\n+++ /dev/null\n@@ -1 +0,0 @@\n"
        "-import time\n", "leaves 7 lines",
    ),
    "a file without newline in the middle": (
        "--- a/server.py\n+++ b/server.py\n@@ -1 +1 @@\n-import time\n+import os\n\\ No newline at end of file\n",
        "middle",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISMATCHES)
def test_a_hunk_that_does_not_fit_exactly_is_refused_and_says_what_stands_there(tmp_path: Path, case: str) -> None:
    diff, words = MISMATCHES[case]
    files = tree_with(tmp_path, {"server.py": SERVER})
    with pytest.raises(ChangeRefused) as caught:
        apply(files, diff)
    assert caught.value.reason == Reason.HUNK_MISMATCH
    assert words in caught.value.message
    assert text_of(tmp_path) == SERVER


def test_one_bad_hunk_keeps_the_whole_diff_out(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER, "twins.py": TWINS})
    before = everything(tmp_path)
    with pytest.raises(ChangeRefused):
        apply(files, FASTER + twin_hunk("@@ -3,2 +3,1 @@"))
    assert everything(tmp_path) == before


LATIN = b"\xe9t\xe9\n" + b"k\n" * 9
PAIRS: dict[str, tuple[dict[str, str | bytes], dict[str, str | bytes]]] = {
    "CRLF line ends": ({"x": "a\r\nb\r\nc\r\n"}, {"x": "a\r\nB\r\nc\r\n"}),
    "mixed line ends": ({"x": "a\nb\r\nc\n"}, {"x": "a\nb\nc\r\n"}),
    "a lone carriage return": ({"x": "a\rb\nc\n"}, {"x": "a\rb\nC\n"}),
    "a newline added at the end": ({"x": "a\nb"}, {"x": "a\nb\n"}),
    "a newline removed at the end": ({"x": "a\nb\n"}, {"x": "a\nb"}),
    "no newline on both sides": ({"x": "a\nb"}, {"x": "a\nc"}),
    "a byte order mark": ({"x": "\ufeffa\nb\n"}, {"x": "\ufeffA\nb\n"}),
    "an empty file that is filled": ({"x": ""}, {"x": "a\n"}),
    "a file that is emptied": ({"x": "a\nb\n"}, {"x": ""}),
    "form feeds and separators": ({"x": "a\x0cb\u2028c\x85d\n1\n"}, {"x": "a\x0cb\u2028c\x85d\n2\n"}),
    "lines that look like headers": ({"x": "-- a\n++ b\n@@ c\n d\n"}, {"x": "++ b\n@@ c\n d\n-- a\n"}),
    "a line of a megabyte": ({"x": "a" * 300_000 + "\nb\n"}, {"x": "a" * 300_000 + "\nc\n"}),
    "a file that is created": ({"k": "k\n"}, {"k": "k\n", "new/deep/x": "a\nb\n"}),
    "an empty file that is created": ({"k": "k\n"}, {"k": "k\n", "x": ""}),
    "a file that is deleted": ({"k": "k\n", "x": "a\nb"}, {"k": "k\n"}),
    "an empty file that is deleted": ({"k": "k\n", "x": ""}, {"k": "k\n"}),
    "a rename": ({"x": "a\nb\nc\nd\n"}, {"deep/y": "a\nb\nc\nd\n"}),
    "a rename with an edit": ({"x": "a\nb\nc\nd\ne\nf\n"}, {"y": "a\nb\nc\nd\ne\nF\n"}),
    "a name with spaces": ({"a b c": "1\n2\n"}, {"a b c": "1\n3\n"}),
    "a name with a quote": ({'say "x".py': "1\n2\n"}, {'say "x".py': "1\n3\n"}),
    "a name in another script": ({"käse/日本.py": "1\n2\n"}, {"käse/日本.py": "1\n3\n"}),
    "text in another encoding": ({"x": LATIN + b"1\n"}, {"x": LATIN + b"2\n"}),
    "many hunks": (
        {"x": "".join(f"{i}\n" for i in range(400))}, {"x": "".join(f"{i * (i % 9 > 0)}\n" for i in range(400))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("context", [0, 1, 3])
@pytest.mark.parametrize("case", PAIRS)
def test_what_git_prints_is_applied_as_git_applies_it_and_taken_back(tmp_path: Path, case: str, context: int) -> None:
    before, after = PAIRS[case]
    files = tree_with(tmp_path, before)
    tree_with(tmp_path / "want", after)
    os.rename(tmp_path / "want/app", tmp_path / "wanted")  # noqa: PTH104
    (tmp_path / "want").rmdir()
    diff = git_diff(tmp_path / "app", tmp_path / "wanted", f"-U{context}", "--find-renames")
    if context == 0 and _inserts_blindly(diff):
        with pytest.raises(ChangeRefused):
            apply(files, diff)
        return
    untouched, wanted = everything(tmp_path / "app"), everything(tmp_path / "wanted")
    applied = apply(files, diff)
    assert {k: v for k, v in everything(tmp_path / "app").items() if v[0] == "file"} == {
        k: v for k, v in wanted.items() if v[0] == "file"
    }
    revert_patch(files, applied, SCOPE)
    assert everything(tmp_path / "app") == untouched
    git(tmp_path / "app", "apply", "--unidiff-zero", "-", stdin=render(applied.patch))
    assert {k: v[2] for k, v in everything(tmp_path / "app").items() if v[0] == "file"} == {
        k: v[2] for k, v in wanted.items() if v[0] == "file"
    }


def _inserts_blindly(diff: str) -> bool:
    """Without context git prints insertions that name a line number only: nothing could be compared."""
    patch = parse(diff)
    return any(
        not hunk.old() for file in patch.files if file.kind is not Kind.CREATE for hunk in file.hunks
    ) and not any(hunk.old_start == 0 for file in patch.files for hunk in file.hunks)


def test_permissions_survive_an_edit_a_rename_a_deletion_and_their_reverts(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"run.sh": "a\n", "secret.py": "a\n", "gone.sh": "a\n"})
    for name, mode in (("run.sh", 0o755), ("secret.py", 0o600), ("gone.sh", 0o755)):
        (tmp_path / "app" / name).chmod(mode)
    before = everything(tmp_path)
    diff = (
        "diff --git a/run.sh b/go.sh\nsimilarity index 90%\nrename from run.sh\nrename to go.sh\n--- a/run.sh\n"
        "+++ b/go.sh\n@@ -1 +1 @@\n-a\n+b\n--- a/secret.py\n+++ b/secret.py\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/gone.sh b/gone.sh\ndeleted file mode 100755\n--- a/gone.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    )
    applied = apply(files, diff)
    after = everything(tmp_path)
    assert after["app/go.sh"] == ("file", 0o755, b"b\n")
    assert after["app/secret.py"] == ("file", 0o600, b"b\n")
    assert "app/gone.sh" not in after
    revert_patch(files, applied, SCOPE)
    assert everything(tmp_path) == before


def test_a_write_that_fails_is_undone(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER, "small.py": "x\n"})
    before = everything(tmp_path)

    class Full(type(files)):  # type: ignore[misc]
        def write(self, path: str, content: bytes, mode: int) -> tuple[str, ...]:
            if path.endswith("late.py"):
                raise OSError(28, "No space left on device")
            return super().write(path, content, mode)

    create = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n"
    delete = (
        "diff --git a/small.py b/small.py\ndeleted file mode 100644\n--- a/small.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    diff = FASTER + delete + create.format("new/early.py") + create.format("late.py")
    with pytest.raises(OSError, match="No space"):
        apply(Full(tmp_path), diff)
    assert everything(tmp_path) == before


def test_a_tree_that_moved_on_is_not_reverted(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER})
    applied = apply(files, FASTER)
    (tmp_path / "app/server.py").write_text("# edited\n" + FAST_SERVER)
    with pytest.raises(ChangeRefused) as caught:
        revert_patch(files, applied, SCOPE)
    assert caught.value.reason == Reason.HUNK_MISMATCH


def test_planning_writes_nothing(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER})
    before = everything(tmp_path)
    planned = plan_patch(files, parse(FASTER), SCOPE)
    assert planned.written[0].after == FAST_SERVER.encode()
    assert everything(tmp_path) == before


def test_a_hard_link_to_a_file_elsewhere_keeps_its_text(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER})
    os.link(tmp_path / "app/server.py", tmp_path / "original.py")
    apply(files, FASTER)
    assert (tmp_path / "original.py").read_text() == SERVER
