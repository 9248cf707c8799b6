"""The upstream package as a tree that may be changed: copied from the stack's environment, patched by the skill."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
TRANSFORM = ROOT / "skills" / "merge-value-tiles" / "transform.py"
KERNEL_FILE = "fla/ops/kda/fused_recurrent.py"


def copy_upstream(python: str, into: Path) -> Path:
    """Copy the installed `fla` below `into`, which then can be put first on the path."""
    find = "import importlib.util as u; print(u.find_spec('fla').submodule_search_locations[0])"
    done = subprocess.run([python, "-I", "-c", find], capture_output=True, text=True, check=True, timeout=60)
    shutil.copytree(done.stdout.strip(), into / "fla", ignore=shutil.ignore_patterns("__pycache__"))
    return into


def propose(tree: Path, facts: Mapping[str, Any]) -> list[str]:
    """The skill's diffs."""
    spec = importlib.util.spec_from_file_location("merge_value_tiles", TRANSFORM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.propose(tree, facts))


def apply(tree: Path, diffs: list[str]) -> None:
    """Apply the diffs; a diff that does not fit raises CalledProcessError."""
    for diff in diffs:
        command = ["git", "apply", "--whitespace=nowarn", "-p1"]
        # Outside a repository: the tree lies in a directory of ours, whatever surrounds it.
        env = {"GIT_DIR": "/nonexistent", "PATH": "/usr/bin:/bin:/usr/local/bin"}
        subprocess.run(command, input=diff, text=True, cwd=tree, check=True, env=env, timeout=60)
