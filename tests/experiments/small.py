"""Small experiment stacks in a folder, and runs of the real command line on them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulated.stacks import events_of, run

LABS = Path(__file__).parent.parent / "labs"
GOAL = "error below 1e-3, code changes allowed, within 3 minutes"
SOURCE = "FACTOR = 4\n\n\ndef error():\n    return FACTOR * 0.25\n\n\ndef unused():\n    return 1\n"
MEASURE = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import part
document = {{"version": 1, "quantities": [{{"name": "error", "unit": "1", "value": {value}}}]{more}}}
{before}
with open(sys.argv[2], "w") as sink:
    json.dump(document, sink)
"""
STACK = """
[stack]
name = "small"
engine = "experiment"
sources = ["./src"]

[launch]
command = ["{{python}}", "measure.py", "{{source}}", "{{result}}"]

[metrics.error]
unit = "1"
direction = "minimise"
kind = "deterministic"
meaning = "how wrong it is"

[experiment]
timeout_s = 20
{more}
"""
LOOK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import part
verdict = "pass" if part.unused() == 1 else "fail"
told = {"version": 1, "verdict": verdict, "summary": "unused is " + str(part.unused())}
with open(sys.argv[2], "w") as sink:
    json.dump({"version": 1, "observations": [told]}, sink)
"""
REQUIRED = """
[probes.look]
rung = "numeric"
required = true
command = ["{python}", "look.py", "{source}", "{result}"]
"""
HEAD = "--- a/part.py\n+++ b/part.py\n"
SMALLER = "@@ -4,2 +4,2 @@\n def error():\n-    return FACTOR * 0.25\n+    return FACTOR * 0.0001\n"
UNUSED = "@@ -8,2 +8,2 @@\n def unused():\n-    return 1\n+    return 2\n"
HALF, IDLE, BOTH = HEAD + SMALLER, HEAD + UNUSED, HEAD + SMALLER + UNUSED


def small(folder: Path, value: str = "part.error()", before: str = "", more: str = "", stack: str = "") -> Path:
    """A stack whose figure is an expression of its source."""
    (folder / "src").mkdir()
    (folder / "src" / "part.py").write_text(SOURCE)
    (folder / "measure.py").write_text(MEASURE.format(value=value, before=before, more=more))
    (folder / "look.py").write_text(LOOK)
    (folder / "infra-agent.toml").write_text(STACK.format(more=stack))
    return folder


def lab(folder: Path, name: str) -> Path:
    """A lab of the repository, copied: its sources are then no part of a checkout."""
    return Path(shutil.copytree(LABS / name, folder / name))


def pursue(folder: Path, *args: str, goal: str = GOAL) -> subprocess.CompletedProcess[str]:
    """`infra-agent run` in the folder."""
    config = {"INFRA_AGENT_CONFIG": str(folder / "config")}
    return run(folder, "run", "--goal", goal, "--seed", "3", *args, timeout_s=280, **config)


def script(folder: Path, *actions: dict[str, Any]) -> list[str]:
    """The script brain with these actions, after stock was measured."""
    rows: Sequence[dict[str, Any]] = ({"kind": "measure", "probe": "experiment", "target": "stock"}, *actions)
    lines = []
    for row in rows:
        lines += ["[[action]]", *(f"{key} = {json.dumps(value)}" for key, value in row.items())]
    (folder / "script.toml").write_text("\n".join(lines) + "\n")
    return ["--brain", "script", "--script", "script.toml"]


def propose(diff: str) -> dict[str, Any]:
    """Propose a diff against stock."""
    return {"kind": "propose", "hypothesis": "", "diff": diff}


def data_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Payloads of one kind in the newest run's ledger."""
    return [event["data"] for event in events_of(folder) if event["kind"] == kind]


def ends(folder: Path) -> list[tuple[str, str, str]]:
    """Candidate, decision and cause of every verdict."""
    return [(row["candidate"], row["decision"], row["cause"]) for row in data_of(folder, "verdict")]
