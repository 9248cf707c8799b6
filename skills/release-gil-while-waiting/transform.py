"""Puts a `gil_scoped_release` where a scan found a native function that waits with the GIL held.

`propose(tree, facts)` reads the findings of `probes.static.gil_scan` among the facts (as its JSON document, or inside
the observations of a run) and returns proposals with unified diffs. Standard library only: it runs in the stack's own
interpreter. Findings whose fix is not mechanical (Python objects around the wait, one path only, a destructor's owner)
are left to people: no proposal is better than a wrong one.

Covered: pybind11 and nanobind functions and lambdas without Python objects in them; CPython functions are not.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

WAIT = "wait-with-gil"
COMMENT = "// Waits for others below: no Python object is used from here on."
NO_NEWLINE = "\\ No newline at end of file\n"


def propose(tree: Path, facts: Any) -> list[dict[str, Any]]:
    """One proposal per finding that can be fixed mechanically."""
    found = []
    for finding in _findings(facts):
        if finding.get("fault") != WAIT or finding["fix"]["form"] != "top" or not finding["fix"].get("at"):
            continue
        name = str(finding["fix"]["at"]["file"])
        path = (Path(tree) / name).resolve()
        if not path.is_relative_to(Path(tree).resolve()) or not path.is_file():
            continue
        old = path.read_text("utf-8")
        at = finding["fix"]["at"]
        new = insert(old, int(at["line"]), int(at.get("column", -1)), str(finding["fix"]["guard"]))
        if new is not None:
            found.append(_proposal(finding, name, _diff(name, old, new)))
    return found


def insert(text: str, line: int, column: int, guard: str) -> str | None:
    """The text with the guard as the first statement of the body whose `{` stands at a line (from 1) and byte (from 0).

    None when no brace can be told for sure: the scan counts columns after macros are expanded.
    """
    lines = text.splitlines(keepends=True)
    if not 0 < line <= len(lines):
        return None
    place = _brace(lines[line - 1], column)
    if place is None:
        return None
    head, tail = lines[line - 1][: place + 1], lines[line - 1][place + 1 :]
    margin = re.match(r"\s*", head)
    indent = (margin[0] if margin else "") + _step(lines)
    rest = [] if not tail.strip() else [indent + tail.lstrip()]
    added = [f"{indent}{COMMENT}\n", f"{indent}{guard}\n"]
    return "".join([*lines[: line - 1], head.rstrip() + "\n", *added, *rest, *lines[line:]])


def _brace(line: str, column: int) -> int | None:
    """Where the body's brace stands: at the given byte, or the only one of the line."""
    before = line.encode("utf-8")[:column].decode("utf-8", "ignore")
    if column >= 0 and line[len(before) : len(before) + 1] == "{":
        return len(before)
    code = re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: " " * len(match[0]), line).split("//")[0]
    return code.index("{") if code.count("{") == 1 else None


def _step(lines: list[str]) -> str:
    """What the file indents by."""
    widths = [len(match[0]) for line in lines if (match := re.match(r" +(?=\S)", line))]
    if any(line.startswith("\t") for line in lines):
        return "\t"
    return " " * min((width for width in widths if width > 1), default=4)


def _findings(facts: Any) -> Iterable[Mapping[str, Any]]:
    """Findings in a scan's document, a list of findings, or the details of a run's observations."""
    if isinstance(facts, list):
        yield from (finding for finding in facts if isinstance(finding, Mapping) and "fix" in finding)
        return
    if "findings" in facts:
        yield from _findings(facts["findings"])
    for observation in facts.get("observations", ()):
        detail = observation.get("detail") or {}
        yield from _findings(detail.get("findings", detail.get("detail", {}).get("findings", [])))


def _proposal(finding: Mapping[str, Any], name: str, diff: str) -> dict[str, Any]:
    where = f"{name}:{finding['line']}"
    return {
        "diff": diff,
        "claim": f"{finding['function']} waits with the GIL held ({where}: {finding['reason']}); "[:400]
        + "releasing it there lets the other Python threads run meanwhile",
        "place": where,
        "refuted_by": "the gap stays when the wait runs without the GIL, or other threads do not wait for it",
    }


def _diff(name: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=3
    )
    return "".join(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}" for line in lines)
