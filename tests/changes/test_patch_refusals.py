"""Every way in which a patch is refused: with its reason, naming the place, and with nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
from changes.trees import FASTER, SCOPE, SERVER, apply, everything, tree_with

from infra_agent.changes.refusal import Reason
from infra_agent.changes.scope import Scope
from infra_agent.errors import ChangeRefused, ExitCode

pytestmark = pytest.mark.requirement("P1")


def new_file(path: str, mode: str = "100644") -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def plain(path: str, old: str = "x", new: str = "y") -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"


def mode_change(path: str) -> str:
    return f"diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n"


BINARY = "diff --git a/w.bin b/w.bin\nindex 1..2 100644\n{}\n"
CASES = {
    "nothing": ("", Reason.EMPTY),
    "prose alone": ("I would remove the sleep.\n", Reason.EMPTY),
    "an absolute path": (plain("/etc/passwd").replace("a//", "/").replace("b//", "/"), Reason.ABSOLUTE_PATH),
    "an absolute path behind a prefix": (plain("/etc/passwd"), Reason.ABSOLUTE_PATH),
    "a drive": (plain("C:/x"), Reason.ABSOLUTE_PATH),
    "a path upwards": (plain("../outside.py"), Reason.PARENT_PATH),
    "a path upwards in the middle": (new_file("pkg/../../outside.py"), Reason.PARENT_PATH),
    "a quoted path upwards": (
        '--- "a/\\056\\056/x"\n+++ "b/\\056\\056/x"\n@@ -1 +1 @@\n-x\n+y\n', Reason.PARENT_PATH,
    ),
    "a backslash": (plain("pkg\\x.py"), Reason.BAD_PATH),
    "a doubled slash": (plain("pkg//x.py"), Reason.BAD_PATH),
    "a dot": (plain("./server.py"), Reason.BAD_PATH),
    "a NUL in the path": ('--- "a/x\\000y"\n+++ "b/x\\000y"\n@@ -1 +1 @@\n-x\n+y\n', Reason.BAD_PATH),
    "a direction character": (plain("x\u202eyp.py"), Reason.BAD_PATH),
    "a very long name": (new_file("n" * 300), Reason.BAD_PATH),
    "git's configuration": (new_file(".git/config"), Reason.GIT_PATH),
    "git's hooks in another case": (new_file("pkg/.GIT/hooks/pre-commit"), Reason.GIT_PATH),
    "git attributes": (new_file(".gitattributes"), Reason.GIT_PATH),
    "a nested repository": (new_file("vendor/.git/HEAD"), Reason.GIT_PATH),
    "a symbolic link": (new_file("link", "120000"), Reason.SYMLINK),
    "a symbolic link by its index line": (
        "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n+y\n", Reason.SYMLINK,
    ),
    "a file that is a link": (plain("linked.py"), Reason.SYMLINK),
    "a file behind a linked directory": (plain("linked_dir/secret.py"), Reason.SYMLINK),
    "a new file behind a linked directory": (new_file("linked_dir/new.py"), Reason.SYMLINK),
    "a submodule": (new_file("vendor/lib", "160000"), Reason.SUBMODULE),
    "a mode change": (mode_change("server.py"), Reason.MODE_CHANGE),
    "a new program": (new_file("run.sh", "100755"), Reason.MODE_CHANGE),
    "a device": (new_file("dev", "020000"), Reason.MODE_CHANGE),
    "a binary by git's words": (BINARY.format("Binary files a/w.bin and b/w.bin differ"), Reason.BINARY),
    "a binary patch": (BINARY.format("GIT binary patch"), Reason.BINARY),
    "a binary file": (plain("weights.bin"), Reason.BINARY),
    "NUL bytes to be added": (plain("small.py", "x", "a\0b"), Reason.BINARY),
    "an LFS pointer": (plain("pointer.bin", "version https://git-lfs.github.com/spec/v1", "y"), Reason.BINARY),
    "a byte-code cache": (new_file("__pycache__/server.cpython-311.pyc"), Reason.BINARY),
    "a copy": ("diff --git a/a b/b\nsimilarity index 100%\ncopy from a\ncopy to b\n", Reason.COPY),
    "another case of a name": (new_file("SERVER.py"), Reason.CASE_COLLISION),
    "another case of a directory": (new_file("PKG/new.py"), Reason.CASE_COLLISION),
    "two new names that differ in case": (new_file("new.py") + new_file("New.py"), Reason.CASE_COLLISION),
    "two Unicode forms of a name": (new_file("caf\u00e9.py") + new_file("cafe\u0301.py"), Reason.CASE_COLLISION),
    "the same file twice": (plain("small.py") + plain("small.py"), Reason.TWICE),
    "a file and its own directory": (new_file("n") + new_file("n/x.py"), Reason.EXISTS),
    "a file that exists": (new_file("small.py"), Reason.EXISTS),
    "a file where a directory is": (new_file("pkg"), Reason.EXISTS),
    "a directory where a file is": (new_file("small.py/x.py"), Reason.EXISTS),
    "a file that does not exist": (plain("sever.py"), Reason.NO_SUCH_FILE),
    "the stack file": (plain("infra-agent.toml"), Reason.PROTECTED),
    "the prompts of the workload": (plain("bench/prompts.jsonl"), Reason.PROTECTED),
    "a new file beside the prompts": (new_file("bench/new.py"), Reason.PROTECTED),
    "an existing test": (plain("tests/test_server.py"), Reason.PROTECTED),
    "an interpreter's start": (new_file("sitecustomize.py"), Reason.PROTECTED),
    "a path file": (new_file("pkg/x.pth"), Reason.PROTECTED),
    "a pytest plugin": (new_file("conftest.py"), Reason.PROTECTED),
    "a rename onto a protected name": (
        "diff --git a/small.py b/conftest.py\nsimilarity index 100%\nrename from small.py\nrename to conftest.py\n",
        Reason.PROTECTED,
    ),
    "a shared directory": (new_file("venv/lib/x.py"), Reason.PROTECTED),
    "a line that belongs to nothing": (FASTER + "done\n", Reason.MALFORMED),
    "a code fence": (FASTER + "```\n", Reason.MALFORMED),
    "a hunk without names": ("@@ -1 +1 @@\n-x\n+y\n", Reason.MALFORMED),
    "a hunk header without numbers": (FASTER.replace("-4,5 +4,4 @@ DELAY_S = 0.05", "def answer @@"), Reason.MALFORMED),
    "a merge": (
        "diff --cc server.py\n--- a/server.py\n+++ b/server.py\n@@@ -1,1 -1,1 +1,1 @@@\n- x\n", Reason.MALFORMED,
    ),
    "context without its space": (FASTER.replace("\n def answer", "\ndef answer"), Reason.MALFORMED),
    "names without hunks": ("--- a/server.py\n+++ b/server.py\n", Reason.MALFORMED),
    "two names for one file": (plain("small.py").replace("+++ b/small.py", "+++ b/other.py"), Reason.MALFORMED),
    "headers that disagree": ("diff --git a/other.py b/other.py\n" + plain("small.py"), Reason.MALFORMED),
    "a name that does not end": ('--- "a/x\n+++ "b/x\n@@ -1 +1 @@\n-x\n+y\n', Reason.MALFORMED),
    "half a surrogate pair": (plain("small.py", "x", "\ud800"), Reason.MALFORMED),
    "a hunk without a change": ("--- a/small.py\n+++ b/small.py\n@@ -1 +1 @@\n x\n", Reason.NO_EFFECT),
    "the same line removed and added": (plain("small.py", "x", "x"), Reason.NO_EFFECT),
    "ten megabytes": (plain("small.py", "x", "y" * 10_000_000), Reason.TOO_LARGE),
    "too many files": ("".join(new_file(f"n{i}.py") for i in range(101)), Reason.TOO_LARGE),
    "a huge target": (plain("huge.txt"), Reason.TOO_LARGE),
}  # fmt: skip
FILES: dict[str, str | bytes] = {
    "server.py": SERVER,
    "small.py": "x\n",
    "pkg/x.py": "x\n",
    "weights.bin": b"x\n\0\0\0",
    "pointer.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
    "huge.txt": "x\n" * (3 * 2**20),
    "infra-agent.toml": "x\n",
    "bench/prompts.jsonl": "x\n",
    "tests/test_server.py": "x\n",
}
GUARDED = Scope(names=("app",), judged_by=("app/bench",), shared=("app/venv",))


@pytest.mark.parametrize("case", CASES)
def test_a_patch_that_may_not_be_is_refused_with_its_reason_and_nothing_is_written(tmp_path: Path, case: str) -> None:
    diff, reason = CASES[case]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("x\n")
    files = tree_with(tmp_path / "tree", FILES)
    (tmp_path / "tree/app/linked.py").symlink_to("small.py")
    (tmp_path / "tree/app/linked_dir").symlink_to(outside)
    before = everything(tmp_path)
    with pytest.raises(ChangeRefused) as caught:
        apply(files, diff, GUARDED)
    assert caught.value.reason == reason.value, caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.message
    assert everything(tmp_path) == before


def test_every_reason_is_provoked_by_some_test() -> None:
    provoked = {reason for _, reason in CASES.values()}
    elsewhere = {Reason.HUNK_MISMATCH, Reason.HUNK_AMBIGUOUS, Reason.OUT_OF_SCOPE}
    assert provoked | elsewhere == set(Reason)


def test_a_refusal_names_file_hunk_and_line(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"server.py": SERVER})
    with pytest.raises(ChangeRefused) as caught:
        apply(files, FASTER.replace("-    time.sleep(DELAY_S)", "-    time.sleep(DELAY)"))
    assert caught.value.where == "server.py, hunk 1, line 4 of the diff"
    assert "'    time.sleep(DELAY)'" in caught.value.message
    assert "'    time.sleep(DELAY_S)'" in caught.value.message


def test_a_misspelt_path_is_answered_with_the_nearest(tmp_path: Path) -> None:
    files = tree_with(tmp_path, {"pkg/server.py": SERVER})
    with pytest.raises(ChangeRefused) as caught:
        apply(files, plain("pkg/sever.py"))
    assert caught.value.hint == "did you mean pkg/server.py?"


@pytest.mark.parametrize(
    ("scope", "path", "allowed"),
    [
        (Scope(names=("app",), patchable=("engine/**",)), "engine/deep/x.py", True),
        (Scope(names=("app",), patchable=("engine/**",)), "small.py", False),
        (Scope(names=("app",), patchable=("*.py",)), "engine/deep/x.py", True),
        (Scope(names=("app",), patchable=("/*.py",)), "engine/deep/x.py", False),
        (Scope(names=("app",), protected=("engine/",)), "engine/deep/x.py", False),
        (Scope(names=("app",), protected=("engine/",)), "small.py", True),
        (Scope(names=("app",), patchable=("engine/",), protected=("deep/",)), "engine/deep/x.py", False),
        (Scope(names=("app", "lib")), "app/small.py", True),
        (Scope(names=("app", "lib")), "small.py", False),
        (Scope(names=("app", "lib")), "app", False),
    ],
)
def test_the_stack_files_globs_decide_what_may_be_patched(
    tmp_path: Path, scope: Scope, path: str, allowed: bool
) -> None:
    files = tree_with(tmp_path, {"engine/deep/x.py": "x\n", "small.py": "x\n"})
    if allowed:
        apply(files, plain(path), scope)
        return
    with pytest.raises(ChangeRefused) as caught:
        apply(files, plain(path), scope)
    assert caught.value.reason in (Reason.OUT_OF_SCOPE, Reason.PROTECTED)


def test_a_new_test_may_be_added_and_taken_back(tmp_path: Path) -> None:
    from infra_agent.changes.apply import revert_patch

    files = tree_with(tmp_path, {"tests/test_server.py": "x\n"})
    before = everything(tmp_path)
    applied = apply(files, new_file("tests/deep/test_more.py"))
    assert everything(tmp_path) != before
    revert_patch(files, applied, SCOPE)
    assert everything(tmp_path) == before
