"""Candidates, references and specs for the judge's tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tomli_w

from probes.base import Json
from probes.numeric.judge.verdict import Ask, judge

REFERENCE = """
import numpy as np

def double(x):
    return x + x

def prefix(x):
    return np.cumsum(x, axis=-1)

def broken(x):
    raise ValueError("no such thing")
"""
SPEC: dict[str, Any] = {
    "name": "double",
    "sizes": [{"rows": 3, "columns": 20}],
    "held_out": {"rows": [1, 5], "columns": [1, 40]},
    "inputs": [{"name": "x", "shape": ["rows", "columns"]}],
    "outputs": [{"name": "y", "shape": ["rows", "columns"]}],
    "limits": {"call_s": 20.0, "memory_bytes": 1 << 30},
}


class Bench:
    """Writes files and asks the judge, without walls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "plain.py").write_text(REFERENCE)

    def ask(self, body: str = "", *, reference: str = "double", command: str | None = None, **spec: Any) -> Ask:
        """A candidate `f(x)` with this body, or a command."""
        (self.folder / "fast.py").write_text(f"import numpy as np\n\ndef f(x, y=None):\n    {body or 'return x + x'}\n")
        path = self.folder / "spec.toml"
        path.write_text(tomli_w.dumps(SPEC | spec))
        return Ask(
            reference=f"{self.folder / 'plain.py'}:{reference}", spec=path, command=command,
            candidate=None if command else f"{self.folder / 'fast.py'}:f", cache=self.folder / "cache",
            python=sys.executable, shrink=False,
        )  # fmt: skip

    def judge(self, body: str = "", **more: Any) -> dict[str, Json]:
        """The verdict's document."""
        return judge(self.ask(body, **more))
