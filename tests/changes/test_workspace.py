"""A run's own copy of real sources: repositories, work trees, submodules, plain directories, installed packages."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from changes.trees import FASTER, SERVER, everything, git

from infra_agent.changes.parse import parse
from infra_agent.changes.refusal import Reason
from infra_agent.changes.sources import Source, find_package, resolve_sources
from infra_agent.changes.tree import tree_digest
from infra_agent.changes.workspace import MAX_TREES, STOCK, Workspace, build_workspace
from infra_agent.errors import ChangeRefused, ConfigError
from infra_agent.stack.model import LaunchSpec, Stack

pytestmark = pytest.mark.requirement("P1")
SLOWER = FASTER.replace("-    time.sleep(DELAY_S)", "-    time.sleep(DELAY_S)\n+    time.sleep(2 * DELAY_S)").replace(
    "-4,5 +4,4", "-4,5 +4,5"
)
RENAMED = "diff --git a/server.py b/main.py\nsimilarity index 100%\nrename from server.py\nrename to main.py\n"


def repository(folder: Path, files: dict[str, str]) -> Path:
    """A repository with one commit of these files."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def built(run_dir: Path, *origins: Path, judged: tuple[Path, ...] = ()) -> Workspace:
    run_dir.mkdir(parents=True, exist_ok=True)
    sources = [Source(name=origin.name, origin=origin.resolve(), kind="directory") for origin in origins]
    return build_workspace(run_dir, sources, patchable=(), protected=(), judged_by=judged, when_s=0)


def names(workspace: Workspace, candidate: str = STOCK) -> set[str]:
    root = workspace.path(candidate)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or path.is_file()}


def add(workspace: Workspace, name: str, diff: str, base: str = STOCK, digest: str = "") -> str:
    made = workspace.add(name, base, digest or workspace.stock, parse(diff), f"{name}: a change", 1)
    return made.after


def test_a_repository_is_taken_as_it_is_on_disk_without_git_and_without_what_it_ignores(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": "committed\n", "gone.py": "x\n", ".gitignore": "*.log\nbuilt/\n"})
    (app / "server.py").write_text(SERVER)
    (app / "gone.py").unlink()
    (app / "new.py").write_text("x\n")
    (app / "noise.log").write_text("x\n")
    (app / "built").mkdir()
    (app / "built/engine.so").write_text("x\n")
    (app / "pkg/__pycache__").mkdir(parents=True)
    (app / "pkg/__pycache__/x.cpython-311.pyc").write_text("x")
    (app / "link").symlink_to("server.py")
    (app / "run.sh").write_text("x\n")
    (app / "run.sh").chmod(0o755)
    workspace = built(tmp_path / "runs/R", app)
    assert names(workspace) == {
        "app/server.py",
        "app/new.py",
        "app/.gitignore",
        "app/link",
        "app/run.sh",
        "app/noise.log",
    }
    assert (workspace.path(STOCK) / "app/server.py").read_text() == SERVER
    assert os.access(workspace.path(STOCK) / "app/run.sh", os.X_OK)
    assert workspace.sources[0].shared == ("built", "noise.log")
    assert (workspace.path(STOCK) / "app/noise.log").read_text() == ""


def test_the_originals_bytes_index_and_times_stay_as_they_are(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, "pkg/x.py": "x\n"})
    (app / "server.py").write_text(SERVER + "# edited\n")
    before = everything(tmp_path), {str(p): p.lstat().st_mtime_ns for p in app.rglob("*")}
    workspace = built(tmp_path / "runs/R", app)
    add(workspace, "C1", FASTER.replace("-4,5 +4,4", "-4,5 +4,4"))
    shutil.rmtree(tmp_path / "runs")
    assert (everything(tmp_path), {str(p): p.lstat().st_mtime_ns for p in app.rglob("*")}) == before


def test_no_copy_shares_an_inode_with_its_original(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER})
    os.link(app / "server.py", app / "twin.py")
    workspace = built(tmp_path / "runs/R", app)
    add(workspace, "C1", FASTER)
    inodes = [(workspace.path(c) / "app" / n).stat().st_ino for c in (STOCK, "C1") for n in ("server.py", "twin.py")]
    assert len({*inodes, (app / "server.py").stat().st_ino}) == 5


def test_each_candidate_has_its_own_tree_and_one_commit_on_its_base(tmp_path: Path) -> None:
    workspace = built(tmp_path / "runs/R", repository(tmp_path / "app", {"server.py": SERVER}))
    first = add(workspace, "C1", FASTER)
    second = add(workspace, "C2", RENAMED, base="C1", digest=first)
    third = add(workspace, "C3", SLOWER)
    assert len({workspace.stock, first, second, third}) == 4
    assert names(workspace) == {"app/server.py"}
    assert names(workspace, "C2") == {"app/main.py"}
    assert "sleep" not in (workspace.path("C2") / "app/main.py").read_text()
    assert "2 * DELAY_S" in (workspace.path("C3") / "app/server.py").read_text()
    log = git(tmp_path / "runs/R", "--git-dir", str(workspace.git.directory), "log", "--format=%s", "C2")
    assert log.splitlines() == ["C2: a change", "C1: a change", "stock: the sources as they were when the run began"]


def test_the_exported_commits_carry_exactly_the_patch(tmp_path: Path) -> None:
    workspace = built(tmp_path / "runs/R", repository(tmp_path / "app", {"server.py": SERVER}))
    add(workspace, "C1", FASTER)
    shown = git(tmp_path / "runs/R", "--git-dir", str(workspace.git.directory), "diff", "stock", "C1")
    assert [line for line in shown.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-    time.sleep(DELAY_S)"
    ]


def test_a_change_and_its_revert_leave_the_digest_as_it_was(tmp_path: Path) -> None:
    workspace = built(tmp_path / "runs/R", repository(tmp_path / "app", {"server.py": SERVER}))
    made = workspace.add("C1", STOCK, workspace.stock, parse(FASTER), "m", 1)
    assert tree_digest(workspace.path("C1")) == made.after != workspace.stock
    workspace.revert("C1", made)
    assert tree_digest(workspace.path("C1")) == workspace.stock


def test_a_refused_patch_leaves_no_tree_and_no_branch(tmp_path: Path) -> None:
    workspace = built(tmp_path / "runs/R", repository(tmp_path / "app", {"server.py": SERVER}))
    with pytest.raises(ChangeRefused):
        add(workspace, "C1", FASTER.replace("def answer", "def reply"))
    assert {path.name for path in (tmp_path / "runs/R/workspace").iterdir()} == {STOCK}
    assert workspace.git.head("C1") is None


@pytest.mark.parametrize("damage", ["removed", "edited", "added", "emptied"])
def test_a_tree_that_was_touched_is_made_again_as_it_was(tmp_path: Path, damage: str) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, ".gitignore": "built/\n", "run.sh": "x\n"})
    (app / "run.sh").chmod(0o755)
    (app / "link").symlink_to("../elsewhere")
    (app / "built").mkdir()
    workspace = built(tmp_path / "runs/R", app)
    digest = add(workspace, "C1", FASTER)
    tree = workspace.path("C1")
    before = everything(tree)
    if damage == "removed":
        shutil.rmtree(tree)
    elif damage == "edited":
        (tree / "app/server.py").write_text("import os\n")
    elif damage == "added":
        (tree / "app/os.py").write_text("x\n")
    else:
        (tree / "app/server.py").unlink()
    assert workspace.ensure("C1", digest) == tree
    assert everything(tree) == before


def test_a_history_that_was_tampered_with_is_not_believed(tmp_path: Path) -> None:
    workspace = built(tmp_path / "runs/R", repository(tmp_path / "app", {"server.py": SERVER}))
    digest = add(workspace, "C1", FASTER)
    shutil.rmtree(workspace.path("C1"))
    other = workspace.git.head(STOCK)
    workspace.git.run("update-ref", "refs/heads/C1", str(other))
    with pytest.raises(ConfigError, match="no longer holds C1"):
        workspace.ensure("C1", digest)


def test_old_trees_make_room_and_come_back_when_needed(tmp_path: Path) -> None:
    workspace = built(tmp_path / "runs/R", repository(tmp_path / "app", {"server.py": SERVER}))
    digests = {}
    for number in range(1, MAX_TREES + 4):
        diff = FASTER.replace("-4,5 +4,4", "-4,5 +4,5").replace(
            "-    time.sleep(DELAY_S)\n", f"-    time.sleep(DELAY_S)\n+    time.sleep({number})\n"
        )
        digests[f"C{number}"] = add(workspace, f"C{number}", diff)
    present = {path.name for path in (tmp_path / "runs/R/workspace").iterdir()}
    assert STOCK in present
    assert len(present) == MAX_TREES + 1
    assert "C1" not in present
    assert tree_digest(workspace.ensure("C1", digests["C1"])) == digests["C1"]


def test_a_plain_directory_shares_its_virtual_environment_and_large_files(tmp_path: Path) -> None:
    app = tmp_path / "app"
    for name, text in {
        "server.py": SERVER,
        "venv/pyvenv.cfg": "x",
        "venv/lib/x.py": "x",
        "node_modules/a/b": "x",
    }.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(text)
    with (app / "weights.bin").open("wb") as file:
        file.truncate(5 * 2**20)
    workspace = built(tmp_path / "elsewhere/R", app)
    assert names(workspace) == {"app/server.py", "app/weights.bin"}
    assert workspace.sources[0].shared == ("node_modules", "venv", "weights.bin")
    mounts = workspace.overlays(STOCK)
    assert list(mounts)[0] == app
    assert mounts[app / "venv"] == app / "venv"
    with pytest.raises(ChangeRefused) as caught:
        add(workspace, "C1", "--- /dev/null\n+++ b/venv/lib/y.py\n@@ -0,0 +1 @@\n+x\n")
    assert caught.value.reason == Reason.PROTECTED


def test_runs_inside_the_source_are_a_hole_and_are_not_copied_into_themselves(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER})
    for name in ("A", "B"):
        workspace = built(app / "runs" / name, app)
        assert names(workspace) == {"app/server.py"}
        assert workspace.overlays(STOCK)[app / "runs"] is None
        assert (workspace.path(STOCK) / "app/runs").is_dir()


def test_links_are_links_whether_ignored_or_not_and_nothing_behind_them_is_taken(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, ".gitignore": "weights\n"})
    (tmp_path / "data").mkdir()
    (tmp_path / "data/secret.py").write_text("x\n")
    (app / "weights").symlink_to(tmp_path / "data")
    (app / "also").symlink_to(tmp_path / "data")
    workspace = built(tmp_path / "runs/R", app)
    assert names(workspace) == {"app/server.py", "app/.gitignore", "app/weights", "app/also"}
    assert workspace.sources[0].shared == ()
    with pytest.raises(ChangeRefused) as caught:
        add(workspace, "C1", "--- a/weights/secret.py\n+++ b/weights/secret.py\n@@ -1 +1 @@\n-x\n+y\n")
    assert caught.value.reason == Reason.SYMLINK
    assert (tmp_path / "data/secret.py").read_text() == "x\n"


def test_a_very_deep_directory_is_read_without_recursion(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "server.py").write_text(SERVER)
    here = os.open(app, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        assert tree_digest(app)
        assert names(built(tmp_path / "elsewhere/R", app)) == {"app/server.py"}
    finally:
        subprocess.run(["rm", "-rf", str(app / "d")], check=True)


def test_a_directory_inside_a_repository_is_listed_by_that_repository(tmp_path: Path) -> None:
    top = repository(tmp_path / "top", {"engine/server.py": SERVER, "other.py": "x\n", ".gitignore": "*.tmp\n"})
    (top / "engine/x.tmp").write_text("x")
    workspace = built(tmp_path / "runs/R", top / "engine")
    assert names(workspace) == {"engine/server.py", "engine/x.tmp"}
    assert workspace.sources[0].shared == ("x.tmp",)


def test_a_directory_that_its_repository_ignores_is_a_plain_one(tmp_path: Path) -> None:
    top = repository(tmp_path / "top", {".gitignore": "build/\n"})
    (top / "build/app").mkdir(parents=True)
    (top / "build/app/server.py").write_text(SERVER)
    assert names(built(tmp_path / "runs/R", top / "build/app")) == {"app/server.py"}


def test_submodules_and_nested_repositories_come_as_plain_files(tmp_path: Path) -> None:
    library = repository(tmp_path / "library", {"lib.py": "x\n"})
    app = repository(tmp_path / "app", {"server.py": SERVER})
    git(app, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "vendor/library")
    (app / "vendor/library/edited.py").write_text("x\n")
    repository(app / "nested", {"inner.py": "x\n"})
    found = names(built(tmp_path / "runs/R", app))
    assert {"app/vendor/library/lib.py", "app/vendor/library/edited.py", "app/nested/inner.py"} <= found
    assert not [name for name in found if "/.git/" in name or name.endswith("/.git")]


def test_a_linked_work_tree_and_a_sha256_repository_are_read_as_well(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, ".gitignore": "x.log\n"})
    git(app, "worktree", "add", "-q", str(tmp_path / "linked"))
    (tmp_path / "linked/x.log").write_text("x")
    assert names(built(tmp_path / "runs/R", tmp_path / "linked")) == {
        "linked/server.py",
        "linked/.gitignore",
        "linked/x.log",
    }
    (tmp_path / "modern").mkdir()
    git(tmp_path / "modern", "init", "-q", "--object-format=sha256")
    (tmp_path / "modern/server.py").write_text(SERVER)
    git(tmp_path / "modern", "add", "--all")
    assert names(built(tmp_path / "runs/S", tmp_path / "modern")) == {"modern/server.py"}


def test_text_is_kept_to_the_byte_whatever_attributes_say(tmp_path: Path) -> None:
    attributes = "* text=auto eol=crlf ident working-tree-encoding=UTF-16 filter=evil export-subst\n"
    app = repository(tmp_path / "app", {"server.py": SERVER})
    (app / ".gitattributes").write_text(attributes)
    (app / "mixed.txt").write_bytes(b"a\r\nb\n$Id$\n$Format:%H$\n\xff\xfe")
    workspace = built(tmp_path / "runs/R", app)
    shutil.rmtree(workspace.path(STOCK))
    tree = workspace.ensure(STOCK, workspace.stock)
    assert (tree / "app/mixed.txt").read_bytes() == (app / "mixed.txt").read_bytes()
    assert (tree / "app/server.py").read_bytes() == SERVER.encode()


PLANTED = ".git/hooks/{0}"
HOOKS = ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-commit")


def test_nothing_that_is_planted_in_a_source_runs_in_the_harness(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER})
    mark = tmp_path / "pwned"
    bomb = f"#!/bin/sh\ntouch {mark}\n"
    for name in HOOKS:
        (app / ".git/hooks").mkdir(exist_ok=True)
        (app / PLANTED.format(name)).write_text(bomb)
        (app / PLANTED.format(name)).chmod(0o755)
    (app / "bomb.sh").write_text(bomb)
    (app / "bomb.sh").chmod(0o755)
    with (app / ".git/config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {app}/bomb.sh\n\thooksPath = {app}/.git/hooks\n\tsshCommand = {app}/bomb.sh\n"
            f"\tpager = {app}/bomb.sh\n\teditor = {app}/bomb.sh\n\talternateRefsCommand = {app}/bomb.sh\n"
            f'[diff]\n\texternal = {app}/bomb.sh\n[filter "evil"]\n\tclean = {app}/bomb.sh\n\tsmudge = {app}/bomb.sh\n'
            f"\tprocess = {app}/bomb.sh\n\trequired = true\n[include]\n\tpath = {app}/more\n"
            f'[remote "origin"]\n\turl = ext::{app}/bomb.sh\n\tpromisor = true\n[extensions]\n\tpartialClone = origin\n'
        )
    (app / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    python_bomb = f"open({str(mark)!r}, 'w').close()\n"
    for name in ("sitecustomize.py", "usercustomize.py", "conftest.py", "git.py", "json.py"):
        (app / name).write_text(python_bomb)
    (app / "x.pth").write_text(f"import os; os.mkdir({str(mark)!r})\n")
    workspace = built(tmp_path / "runs/R", app)
    digest = add(workspace, "C1", FASTER)
    shutil.rmtree(workspace.path("C1"))
    workspace.ensure("C1", digest)
    assert not mark.exists()
    assert "app/sitecustomize.py" in names(workspace)
    git(app, "status", check=False)
    assert mark.exists(), "the trap must be able to spring"


def test_an_index_that_names_files_outside_is_refused(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, "xx/secret": "x\n"})
    index = (app / ".git/index").read_bytes()
    body = index[:-20].replace(b"xx/secret", b"../secret")
    (app / ".git/index").write_bytes(body + hashlib.sha1(body).digest())
    (tmp_path / "secret").write_text("s")
    with pytest.raises(ConfigError, match="outside itself"):
        built(tmp_path / "runs/R", app)
    assert not list((tmp_path / "runs/R").rglob("secret"))


def test_what_a_run_is_judged_by_is_protected_wherever_it_lies(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, "bench/prompts.jsonl": "x\n"})
    workspace = built(tmp_path / "runs/R", app, judged=(app / "bench/prompts.jsonl", tmp_path / "elsewhere"))
    with pytest.raises(ChangeRefused) as caught:
        add(workspace, "C1", "--- a/bench/prompts.jsonl\n+++ b/bench/prompts.jsonl\n@@ -1 +1 @@\n-x\n+y\n")
    assert caught.value.reason == Reason.PROTECTED
    assert "judged" in caught.value.message


def test_several_sources_are_named_in_paths(tmp_path: Path) -> None:
    one = repository(tmp_path / "one", {"server.py": SERVER})
    two = repository(tmp_path / "two", {"server.py": SERVER})
    workspace = built(tmp_path / "runs/R", one, two)
    add(workspace, "C1", FASTER.replace("a/server", "a/two/server").replace("b/server", "b/two/server"))
    assert "sleep" in (workspace.path("C1") / "one/server.py").read_text()
    assert "sleep" not in (workspace.path("C1") / "two/server.py").read_text()


@pytest.mark.parametrize("after_s", [0.02, 0.1, 0.25, 0.5])
def test_a_kill_leaves_whole_trees_or_none(tmp_path: Path, after_s: float) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, **{f"m{i}.py": "x\n" * 50 for i in range(300)}})
    before = everything(app)
    script = (
        "import sys; from pathlib import Path; from changes.test_workspace import add, built, FASTER\n"
        "w = built(Path(sys.argv[1]), Path(sys.argv[2])); print('ready', flush=True)\n"
        "while True: add(w, 'C1', FASTER)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[2])])
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "R"), str(app)], env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert everything(app) == before
    again = built(tmp_path / "S", app)
    digest = add(again, "C1", FASTER)
    survivor = Workspace(run_dir=tmp_path / "R", sources=again.sources, scope=again.scope, stock=again.stock)
    survivor.remove_leftovers()
    trees = {path.name: tree_digest(path) for path in (tmp_path / "R/workspace").iterdir()}
    assert trees[STOCK] == again.stock
    assert trees.get("C1", digest) == digest
    assert add(survivor, "C1", FASTER) == digest


def test_a_package_is_found_without_importing_it(tmp_path: Path) -> None:
    site = tmp_path / "venv/lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    mark = tmp_path / "imported"
    (site / "engine").mkdir()
    (site / "engine/__init__.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    (site / "bomb.pth").write_text(f"import os; os.mkdir({str(mark)!r})\n")
    (site / "single.py").write_text("x\n")
    python = str(tmp_path / "venv/bin/python")
    stack = Stack(name="s", engine="openai", sources=("package:engine",), launch=LaunchSpec(python=python))
    (found,) = resolve_sources(stack)
    assert (found.name, found.kind, found.origin) == ("engine", "package", (site / "engine").resolve())
    assert not mark.exists()
    for name in ("single", "absent", "os.path", "../engine", "-c"):
        with pytest.raises(ConfigError):
            find_package(python, name)
    with pytest.raises(ConfigError, match="interpreter"):
        find_package(str(tmp_path / "no-python"), "engine")


def test_sources_that_overlap_or_are_missing_or_empty_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for sources, words in (
        ((str(tmp_path / "a"), str(tmp_path / "a/b/..")), "named twice"),
        ((str(tmp_path / "c"),), "no such source"),
    ):
        with pytest.raises(ConfigError, match=words):
            resolve_sources(Stack(name="s", engine="openai", sources=sources))
    with pytest.raises(ConfigError, match="no file"):
        built(tmp_path / "runs/R", tmp_path / "a")


def test_a_source_inside_another_is_refused_unless_it_lies_in_its_environment(tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER, "lib/x.py": "x\n", ".gitignore": "venv/\n"})
    (app / "venv/site/engine").mkdir(parents=True)
    (app / "venv/site/engine/core.py").write_text(SERVER)
    with pytest.raises(ConfigError, match="inside another"):
        built(tmp_path / "runs/R", app, app / "lib")
    workspace = built(tmp_path / "runs/S", app / "venv/site/engine", app)
    mounts = list(workspace.overlays(STOCK))
    assert mounts == [app, app / "venv", app / "venv/site/engine"]
    workspace.remove_trees()
    assert tree_digest(workspace.ensure(STOCK, workspace.stock), workspace.scope.shared) == workspace.stock


def test_a_full_disk_is_said_before_anything_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = repository(tmp_path / "app", {"server.py": SERVER})
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ConfigError, match="MB are needed"):
        built(tmp_path / "runs/R", app)
    assert not (tmp_path / "runs/R/workspace/stock").exists()
