"""The bench: what it prints, when it fails, and that the page shows what it measured."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
DOCS = Path(__file__).parents[2] / "docs"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return load("judge_tables")


@pytest.fixture(scope="module")
def bench(tables: ModuleType) -> ModuleType:
    return load("bench_judge")


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((DOCS / "judge.json").read_text())
    return figures


@pytest.mark.runs
def test_a_short_run_prints_every_table_and_ends_with_one_line_of_json(bench, capsys):
    code = bench.main(["--rows", "100", "--seed", "5"])
    printed = capsys.readouterr().out
    last = json.loads(printed.splitlines()[-1])
    assert code == (0 if last["ok"] else 1)
    assert last["bench"] == "judge"
    names = {promise["name"] for promise in last["promises"]}
    assert {"+3 % accepted by 16 blocks, drift", "+3 % accepted by 16 blocks, drift, stalls"} <= names
    for rule in ("one run each", "best of 5", "2 sd", "Welch", "intervals apart", "this judge"):
        assert rule in printed
    assert "two modes 36 % (not promised)" in printed


def test_every_promise_is_checked_with_its_error_and_one_that_breaks_is_named(bench, published):
    assert all(promise["holds"] for promise in bench.promises(published))
    broken = copy.deepcopy(published)
    broken["errors"][0]["false_accept"] = 0.026
    broken["coverage"][0]["ours"] = 0.961
    failed = [promise for promise in bench.promises(broken) if not promise["holds"]]
    assert [promise["value"] for promise in failed] == [0.026, 0.961]
    assert all(promise["error"] > 0 for promise in failed)


def test_a_world_outside_the_promise_breaks_none(bench, published):
    other = copy.deepcopy(published)
    for row in other["errors"]:
        if not row["promised"]:
            row["false_accept"] = 0.5
    assert all(promise["holds"] for promise in bench.promises(other))


def test_a_broken_promise_is_an_exit_code_of_one_and_renews_nothing(bench, monkeypatch, capsys, tmp_path, published):
    broken = copy.deepcopy(published)
    broken["promises"][0]["holds"] = False
    monkeypatch.setattr(bench, "measure", lambda seed, rows: broken)
    monkeypatch.setattr(bench, "RATES", tmp_path / "rates.json")
    assert bench.main(["--write"]) == 1
    assert "NOT every promise holds" in capsys.readouterr().out
    assert not (tmp_path / "rates.json").exists()


def test_too_few_rows_are_refused(bench, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.main(["--rows", "10"])
    assert stopped.value.code == 2
    assert "--rows" in capsys.readouterr().err


def test_the_page_shows_the_published_figures_and_the_reports_their_worst(bench, tables, published):
    page = (DOCS / "judge.md").read_text()
    assert tables.inserted(page, published) == page
    rates = json.loads(bench.RATES.read_text())
    assert rates == bench.worst_rates(published)
    assert max(rates["rates"].values()) <= bench.ERROR_LIMIT


def test_a_page_without_its_marks_is_refused(tables, published):
    with pytest.raises(ValueError, match="no mark"):
        tables.inserted("# The judge\n", published)
