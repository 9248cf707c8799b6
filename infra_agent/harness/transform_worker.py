"""Runs one transform inside the sandbox: `python -I transform_worker.py SKILL TREE`, facts on standard input.

It needs the standard library only and imports nothing of this program, so that any interpreter of a stack can run it.
The answer, a list of proposals, goes to descriptor 3 as one length-prefixed JSON document.

Covered: proposals as unified diffs, or as new texts of files, which are turned into diffs here.
Not covered: checking a diff; the harness does that on its own side.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

ANSWER_FD = 3
NO_NEWLINE = "\\ No newline at end of file\n"


def main(skill: Path, tree: Path) -> None:
    """Ask the transform, and send what it proposes."""
    facts = json.load(sys.stdin)
    sys.path.insert(0, str(skill))
    spec = importlib.util.spec_from_file_location("transform", skill / "transform.py")
    if spec is None or spec.loader is None:
        raise SystemExit("transform.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules["transform"] = module
    spec.loader.exec_module(module)
    body = json.dumps([_with_diff(tree, dict(found)) for found in module.propose(tree, facts)]).encode()
    data = struct.pack(">I", len(body)) + body
    while data:
        data = data[os.write(ANSWER_FD, data) :]


def _with_diff(tree: Path, proposal: dict[str, Any]) -> dict[str, Any]:
    files = proposal.pop("files", None)
    if files is None:
        return proposal
    parts = [_diff(name, (tree / name).read_text("utf-8"), text) for name, text in sorted(files.items())]
    return {**proposal, "diff": "".join(parts)}


def _diff(name: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=3
    )
    return "".join(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}" for line in lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
