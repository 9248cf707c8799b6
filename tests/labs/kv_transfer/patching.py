"""The patch that the skill proposes, applied to a copy; and a change of the same kind that should do nothing."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SKILL = ROOT / "skills" / "release-gil-while-waiting" / "transform.py"


def transform() -> ModuleType:
    """The skill's module."""
    spec = importlib.util.spec_from_file_location("release_gil_transform", SKILL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def patched(tree: Path, findings: Any, target: Path) -> tuple[str, Path]:
    """The proposed diff and a copy of the tree with it applied. ValueError when nothing or too much is proposed."""
    proposals = transform().propose(tree, findings)
    if len(proposals) != 1:
        raise ValueError(f"{len(proposals)} proposals; exactly one was expected")
    diff = str(proposals[0]["diff"])
    shutil.copytree(tree, target)
    done = subprocess.run(["patch", "-p1", "--batch"], cwd=target, input=diff, text=True, capture_output=True)
    if done.returncode:
        raise ValueError(f"the proposed diff does not apply: {done.stdout}{done.stderr}")
    return diff, target


def placebo(source: Path, folder: Path) -> Path:
    """The same guard where nothing waits."""
    text = source.read_text()
    place = "int64_t combine(int64_t tokens) const {\n"
    if place not in text:
        raise ValueError("the source has no combine to put a placebo into")
    folder.mkdir(parents=True)
    target = folder / source.name
    target.write_text(text.replace(place, f"{place}        pybind11::gil_scoped_release release;\n"))
    return target
