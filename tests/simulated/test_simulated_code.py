"""Whole runs of the real command line that change code: a small real server in a repository, diffs by a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated import own
from simulated.stacks import events_of, report_of, tune

pytestmark = pytest.mark.requirement("P1")


def verdicts(report: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {row["candidate"]: (row["decision"], row["cause"]) for row in report["verdicts"]}


def kinds(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event["data"] for event in events_of(folder) if event["kind"] == kind]


def probes_of(folder: Path, candidate: str) -> list[str]:
    return [o["observation"]["probe"] for o in kinds(folder, "observation") if o["candidate"] == candidate]


def test_a_diff_that_removes_the_defect_is_accepted_and_the_checkout_stays_as_it_was(tmp_path: Path) -> None:
    folder = own.project(tmp_path)
    before = own.snapshot(folder / "app")
    done = tune(folder, *own.script(folder, own.propose(own.FASTER), own.prove("C1")), goal=own.GOAL)
    assert done.returncode == 0, done.stderr + done.stdout
    report = report_of(folder)
    assert verdicts(report)["C1"] == ("accepted", "proved")
    assert report["accepted"][0]["estimate"]["low"] > 1.5
    assert report["accepted"][0]["risk"] == "routine"
    assert "-        rest_before_word()" in report["candidates"][0]["patch"]["diff"]
    assert probes_of(folder, "C1")[:4] == ["code-engagement", "effective-state", "answers", "load"]
    assert own.snapshot(folder / "app") == before
