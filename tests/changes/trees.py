"""Source trees and diffs for the tests of changes: real files, and what a tree holds as one comparable value."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from infra_agent.changes.apply import Applied, apply_patch
from infra_agent.changes.parse import parse
from infra_agent.changes.scope import Scope
from infra_agent.changes.tree_files import TreeFiles

SERVER = "import time\n\nDELAY_S = 0.05\n\n\ndef answer(prompt):\n    time.sleep(DELAY_S)\n    return prompt.upper()\n"
SCOPE = Scope(names=("app",))
FASTER = (
    "diff --git a/server.py b/server.py\n--- a/server.py\n+++ b/server.py\n@@ -4,5 +4,4 @@ DELAY_S = 0.05\n \n \n"
    " def answer(prompt):\n-    time.sleep(DELAY_S)\n     return prompt.upper()\n"
)
GIT_ENV = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


def tree_with(folder: Path, files: dict[str, str | bytes]) -> TreeFiles:
    """A tree of one source named `app`."""
    for name, content in files.items():
        path = folder / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (folder / "app").mkdir(exist_ok=True)
    return TreeFiles(folder)


def everything(folder: Path) -> dict[str, tuple[str, int, bytes]]:
    """Every entry below a folder: kind, permissions and content; links as links, directories too."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if path.is_symlink():
            entry = ("link", 0, os.fsencode(os.readlink(path)))  # noqa: PTH115
        elif path.is_dir():
            entry = ("directory", mode, b"")
        else:
            entry = ("file", mode, path.read_bytes() if path.is_file() else b"")
        found[str(path.relative_to(folder))] = entry
    return found


def text_of(folder: Path, name: str = "server.py") -> str:
    return (folder / "app" / name).read_bytes().decode()


def apply(files: TreeFiles, diff: str, scope: Scope = SCOPE) -> Applied:
    return apply_patch(files, parse(diff), scope)


def git(folder: Path, *words: str, stdin: str | None = None, check: bool = True) -> str:
    """A git of its own configuration, for making repositories and diffs."""
    done = subprocess.run(
        ["git", "-C", str(folder), *words], input=stdin, capture_output=True, text=True, check=check, env=GIT_ENV
    )
    return done.stdout


def git_diff(before: Path, after: Path, *options: str) -> str:
    """What git prints for two folders, each taken as a whole repository."""
    store = before.parent / "store.git"
    trees = []
    for folder in (before, after):
        here = ("--git-dir", str(store), "--work-tree", str(folder))
        git(folder, "init", "-q", "--bare", str(store))
        git(folder, *here, "add", "--all", "--force", ".")
        trees.append(git(folder, *here, "write-tree").strip())
        (store / "index").unlink()
    words = ["git", "--git-dir", str(store), "diff", "--no-color", *options, *trees]
    text = subprocess.run(words, capture_output=True, check=True, env=GIT_ENV).stdout
    shutil.rmtree(store)
    return text.decode("utf-8", "surrogateescape")
