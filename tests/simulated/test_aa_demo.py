"""The A/A comparisons: what they are drawn from, that they go on where they stopped, and what fails them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from simulated.stacks import stack_file

from infra_agent.judge.evidence import Evidence, Stalls

SCRIPT = Path(__file__).parents[2] / "scripts" / "aa_demo.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("aa_demo", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["aa_demo"] = module
    spec.loader.exec_module(module)
    return module


def call(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--stack", str(folder / "infra-agent.toml"), "--dir", str(folder / "pool")]
    return subprocess.run(
        [*command, *args], env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip


def launches(folder: Path) -> int:
    return (folder / "pool" / "events.jsonl").read_text().count('"kind":"launch"')


def test_real_launches_of_stock_are_compared_with_each_other_and_none_is_accepted(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]}, requests=6, max_tokens=4)
    first = call(tmp_path, "--blocks", "3", "--comparisons", "4")
    document = json.loads(first.stdout.splitlines()[-1])
    assert first.returncode == 0, first.stderr
    assert (document["comparisons"], document["pool_blocks"], document["accepted"]) == (4, 3, 0)
    assert document["as_measured"] == 1
    before = launches(tmp_path)
    assert before >= 6

    again = call(tmp_path, "--blocks", "3", "--comparisons", "4")
    assert again.stdout == first.stdout
    assert launches(tmp_path) == before
    more = call(tmp_path, "--blocks", "4", "--comparisons", "4")
    assert json.loads(more.stdout.splitlines()[-1])["pool_blocks"] == 4
    assert launches(tmp_path) >= before + 2


def test_without_time_for_three_blocks_nothing_is_compared(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]}, requests=6, max_tokens=4)
    done = call(tmp_path, "--minutes", "0.01")
    assert done.returncode == 4
    assert "a comparison needs 3" in done.stderr


def test_the_first_comparisons_share_no_block_and_the_others_none_within_themselves(script: ModuleType) -> None:
    found = script.draws(32, 20, 1)
    assert [draw.how for draw in found] == ["as measured"] * 2 + ["drawn"] * 18
    assert not set(found[0].blocks) & set(found[1].blocks)
    assert all(len(set(draw.blocks)) == 16 for draw in found)
    assert any(any(draw.swapped) for draw in found[2:])
    assert script.draws(32, 20, 1) == found


def test_a_swapped_block_is_the_same_block_seen_from_the_other_side(script: ModuleType) -> None:
    stalls = (Stalls(stalled=(True, False), loss=(0.4, 0.0)), Stalls(stalled=(False, False), loss=(0.0, 0.0)))
    pool = Evidence(plain=(0.3, -0.1), stalls=stalls)
    taken = script._taken(pool, script.Draw((1, 0), (False, True), "drawn"))
    assert taken.plain == (-0.1, -0.3)
    assert taken.stalls[1].stalled == (False, True)
    assert taken.stall_free == pytest.approx((-0.1, 0.1))


def test_an_accepted_comparison_is_an_exit_code_of_one(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    plain = tuple(0.5 + 0.001 * number for number in range(16))
    assert script.conclude(Evidence(plain=plain), 1) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accepted"] == 1
