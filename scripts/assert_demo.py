"""Asserts what `make demo` promises, from the JSON of the newest run: `infra-agent runs show last --json`."""

from __future__ import annotations

import json
import sys
from typing import Any

LOWEST_RATIO = 1.5
FIRST_CHANGE_S = 300.0
FAMILIES = {"dtype", "threads", "attention", "compile"}


def failures(report: dict[str, Any]) -> list[str]:
    """Every promise that the run does not keep."""
    accepted, final = report["accepted"], report["final"]
    batching = [row for row in accepted if "continuous batching" in row["title"]]
    others = {family["family"]: family["disposition"] for family in report["families"]}
    tested = {
        name for name, disposition in others.items() if name in FAMILIES and disposition not in ("untested", "open")
    }
    answers = report["answers"]
    checks = {
        "the goal was met (exit code 0)": report["outcome"]["met"] and report["outcome"]["exit_code"] == 0,
        "continuous batching was accepted": bool(batching),
        "its proving interval lies above 1": bool(batching) and lower_bound(batching[0]) > 1,
        f"the lower bound on fresh seeds is above {LOWEST_RATIO}": lower_bound(final) > LOWEST_RATIO,
        "at least four other candidates have verdicts": len(report["verdicts"]) - len(accepted) >= 4,
        "dtype, threads, attention and compile were tested": tested == FAMILIES,
        "the answer check has a result": answers is not None and answers["verdict"] == "pass",
        "the honesty row is there": report["honesty_row"] is not None,
        "the final relaunch used fresh seeds": fresh_seeds(final, report["search"]),
    }
    return [text for text, kept in checks.items() if not kept]


def first_change(report: dict[str, Any]) -> str:
    """When the first change was accepted. Reported, not asserted: a noisy machine needs more blocks."""
    if not report["accepted"]:
        return "first change: none"
    seconds = report["accepted"][0]["accepted_after_s"]
    how = "within" if seconds <= FIRST_CHANGE_S else "later than"
    return f"first change: accepted after {seconds:.0f} s, {how} {FIRST_CHANGE_S:.0f} s"


def lower_bound(row: dict[str, Any] | None) -> float:
    """The lower end of a row's interval; 0 when nothing was measured."""
    estimate = (row or {}).get("estimate") or {}
    return float(estimate.get("low") or 0.0)


def fresh_seeds(final: dict[str, Any] | None, search: dict[str, Any] | None) -> bool:
    """Whether the final relaunch happened, on seeds that the search never saw."""
    used = set((search or {}).get("seeds") or ())
    seeds = set((final or {}).get("seeds") or ())
    return bool(seeds) and bool(used) and not seeds & used


def main() -> int:
    """0 when every promise is kept."""
    report = json.load(sys.stdin)
    broken = failures(report)
    print(first_change(report))
    for text in broken:
        print(f"broken: {text}")
    print("demo: every promise kept" if not broken else f"demo: {len(broken)} promises broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
