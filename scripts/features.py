"""`make features`: runs the scoreboard's commands and writes docs/features.md and docs/features.json.

A row is graded only by its command: exit 0 gives the grade written beside it, anything else gives `no`; a row without a
command is `?`. The last line that a command prints is its figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "scripts" / "scoreboard" / "rows.toml"
TIMEOUT_S = 900
FIGURE_WIDTH = 90
GRADES = ("yes", "partly", "no", "?")


class Result(NamedTuple):
    """One graded row."""

    id: str
    title: str
    grade: str
    figure: str
    missing: str
    command: str


def main() -> int:
    """Grade the rows named on the command line, or all; write the table when all were graded."""
    document = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    wanted = set(sys.argv[1:])
    cache: dict[str, tuple[bool, str]] = {}
    rows = [row for row in document["row"] if not wanted or row["id"] in wanted]
    results = [Result(row["id"], row["title"], "?", "", "", "") for row in rows]
    for index, row in enumerate(rows):
        results[index] = grade(row, cache)
        table = markdown(document["groups"], results)
        if not wanted:
            keep(table, results)
    print(table)
    return 0


def keep(table: str, results: list[Result]) -> None:
    """Write what is graded so far: a scoreboard that was broken off shows `?` for the rest."""
    (ROOT / "docs" / "features.md").write_text(table, encoding="utf-8")
    rows = [result._asdict() for result in results]
    document = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    (ROOT / "docs" / "features.json").write_text(document, encoding="utf-8")


def grade(row: dict[str, Any], cache: dict[str, tuple[bool, str]]) -> Result:
    """Run a row's command, or take its result from an equal command before it."""
    command = row.get("command", "")
    if not command:
        return Result(row["id"], row["title"], "?", "", "", "")
    if command not in cache:
        print(f"{row['id']}: {command}", file=sys.stderr)
        cache[command] = run(command)
    ok, figure = cache[command]
    return Result(row["id"], row["title"], row["grade"] if ok else "no", figure, row.get("missing", ""), command)


def run(command: str) -> tuple[bool, str]:
    """Whether the command exits 0, and the last line it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "PYTEST_ADDOPTS": "-n 2"}
    try:
        done = subprocess.run(
            ["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {TIMEOUT_S} s"
    lines = done.stdout.strip().splitlines()
    return done.returncode == 0, (lines[-1].strip("= ") if lines else "")[:FIGURE_WIDTH]


def markdown(groups: dict[str, str], results: list[Result]) -> str:
    """The table, by group, with totals."""
    totals = Counter(result.grade for result in results)
    sums = ", ".join(f"{totals[name]} {name}" for name in GRADES)
    lines = [
        "# Scoreboard",
        "",
        "Written by `make features`, which runs each row's command; nothing here is typed in.",
        "`?` means that no command proves or refutes the row yet.",
        "",
        f"{len(results)} rows on {datetime.now(UTC):%Y-%m-%d}: {sums}.",
    ]
    for letter, name in groups.items():
        members = [result for result in results if result.id[0] == letter]
        if not members:
            continue
        lines += [
            "",
            f"## {letter}. {name}",
            "",
            "| row | feature | us | figure | not shown by it |",
            "|---|---|:-:|---|---|",
        ]
        for result in members:
            missing = result.missing if result.grade in ("yes", "partly") else ""
            cells = (result.id, result.title, result.grade, result.figure, missing)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "## Commands", ""]
    lines += [f"- {result.id}: `{result.command}`" for result in results if result.command]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
