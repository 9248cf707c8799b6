"""Trees in the place of their originals, in a real sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra_agent.errors import SandboxUnavailable
from infra_agent.harness.overlays import overlay_arguments
from infra_agent.harness.sandbox import Walls, hold_walls, outer_env, wrap

pytestmark = pytest.mark.requirement("P1")
LOOK = """
import os, sys
for path in sys.argv[1:]:
    if os.path.isdir(path):
        print(path, "directory", sorted(os.listdir(path)))
    else:
        print(path, open(path).read().strip() if os.path.exists(path) else "absent")
    try:
        open(os.path.join(path, "new") if os.path.isdir(path) else path, "w").close()
        print("  written")
    except OSError:
        print("  read-only")
"""


@pytest.fixture(scope="module")
def walls() -> Walls:
    try:
        return hold_walls(no_sandbox=False)
    except SandboxUnavailable as error:
        pytest.skip(error.message)


def inside(walls: Walls, folder: Path, overlays: dict[Path, Path | None], *paths: Path) -> str:
    scratch = folder / "runs/R/scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    program = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", LOOK, *map(str, paths)]
    argv = wrap(
        program, walls, writable=[scratch], env={"PATH": os.defpath}, cwd=scratch, readable=[folder], overlays=overlays
    )
    done = subprocess.run(argv, env=outer_env(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_tree_takes_its_originals_place_with_shared_entries_and_holes(walls: Walls, tmp_path: Path) -> None:
    app, tree = tmp_path / "app", tmp_path / "tree"
    for folder, text in ((app, "original"), (tree, "candidate")):
        (folder / "venv").mkdir(parents=True)
        (folder / "runs").mkdir()
        (folder / "server.py").write_text(text)
    (app / "venv/pyvenv.cfg").write_text("shared")
    (app / "runs/ledger").write_text("secret")
    overlays = {app: tree, app / "venv": app / "venv", app / "runs": None}
    seen = inside(walls, app, overlays, app / "server.py", app / "venv/pyvenv.cfg", app / "runs/ledger")
    assert seen.split("\n")[:6] == [
        f"{app}/server.py candidate", "  read-only",
        f"{app}/venv/pyvenv.cfg shared", "  read-only",
        f"{app}/runs/ledger absent", "  written",
    ]  # fmt: skip
    assert (app / "server.py").read_text() == "original"
    assert (tree / "server.py").read_text() == "candidate"
    assert (app / "runs/ledger").read_text() == "secret"


def test_the_launchs_own_directory_below_an_original_stays_writable(walls: Walls, tmp_path: Path) -> None:
    app, tree = tmp_path / "app", tmp_path / "tree"
    (tree / "runs").mkdir(parents=True)
    app.mkdir()
    scratch = app / "runs/R/scratch"
    seen = inside(walls, app, {app: tree, app / "runs": None}, scratch)
    assert "written" in seen
    assert (scratch / "new").exists()


def test_words_for_the_sandbox_keep_their_order(tmp_path: Path) -> None:
    mounts = {Path("/a"): Path("/t"), Path("/a/venv"): Path("/a/venv"), Path("/a/runs"): None}
    assert overlay_arguments(mounts, [Path("/a/runs/s"), Path("/b")]) == [
        "--ro-bind", "/t", "/a", "--ro-bind", "/a/venv", "/a/venv", "--tmpfs", "/a/runs",
        "--bind", "/a/runs/s", "/a/runs/s",
    ]  # fmt: skip
    assert overlay_arguments({}) == []
