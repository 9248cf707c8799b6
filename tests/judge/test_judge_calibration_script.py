"""The calibration script: what it prints, and when its check fails."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "judge_calibration.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("judge_calibration", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_run_gives_every_figure_as_json_and_the_same_as_tables(script, capsys):
    assert script.main(["--rows", "400", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {row["world"] for row in figures["errors"]} >= {"drift", "drift, stalls", "two modes 36 %"}
    assert [gain["effect"] for gain in figures["errors"][0]["gains"]] == [1.02, 1.03, 1.05, 1.10, 2.0]
    assert {row["blocks"] for row in figures["coverage"]} == {3, 6, 9, 12, 16}
    script.show(figures)
    printed = capsys.readouterr().out
    assert "two modes 36 % (not promised)" in printed
    for row in figures["rules"]:
        assert f"| {row['world']} | {row['rule']} | {row['runs']} | {100 * row['accepts'][0]:.1f} |" in printed


def test_the_check_fails_for_a_promised_world_and_names_the_rate(script):
    def row(world: str, promised: bool, accept: float, worse: float) -> dict[str, object]:
        return {"world": world, "promised": promised, "false_accept": accept, "false_worse": worse}

    rows = 40_000
    good = row("good", True, 0.025, 0.0265)
    assert script.failures({"rows": rows, "errors": [good, row("limit", False, 0.2, 0.2)]}) == []
    bad = script.failures({"rows": rows, "errors": [good, row("bad", True, 0.03, 0.028)]})
    assert bad == [
        "bad: false_accept 3.00 % is above 2.68 %",
        "bad: false_worse 2.80 % is above 2.68 %",
    ]


def test_too_few_rows_are_refused(script, capsys):
    with pytest.raises(SystemExit) as stopped:
        script.main(["--rows", "10"])
    assert stopped.value.code == 2
    assert "--rows" in capsys.readouterr().err
