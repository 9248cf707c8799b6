from __future__ import annotations

import pytest

from probes.numeric.operators.__main__ import FIXED, main, weigh
from probes.numeric.operators.specs import OPERATORS
from probes.numeric.tolerance.rules import CloseRule
from probes.numeric.tolerance.strength import NEEDED

BY_NAME = {spec.name: (spec, function) for spec, function in OPERATORS}


def test_there_are_twenty_operators_at_least() -> None:
    assert len(OPERATORS) >= 20


@pytest.mark.parametrize("name", ["softmax", "delta_rule", "topk_gate", "ragged_sum", "int8_rows", "cross_entropy"])
def test_the_derived_tolerance_refuses_broken_outputs_and_no_honest_ones(name: str) -> None:
    found = weigh(*BY_NAME[name], seed=3, fixed=()).derived
    assert found.rate >= NEEDED, found.sentence()
    assert not found.refused_honest, found.sentence()


def test_tolerances_that_people_use_are_found_weak_by_name() -> None:
    row = weigh(*BY_NAME["softmax"], seed=3, fixed=[*FIXED, CloseRule(rtol=1.0, atol=1.0)])
    weak = {each.rule: each for each in row.weak}
    assert "zero (y)" in weak["allclose(rtol=1, atol=1)"].survivors
    assert "rounded to bfloat16 (y)" in weak["allclose(rtol=0.01, atol=0.01)"].survivors
    assert "x 0.5 (y)" in weak["cosine >= 0.99"].survivors


def test_the_command_prints_a_kill_rate_per_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gelu"]) == 0
    said = capsys.readouterr().out
    assert "gelu" in said
    assert "1.00" in said
    assert "none of them used" in said


def test_an_unknown_operator_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gelo"]) == 2
    assert "gelo" in capsys.readouterr().err
