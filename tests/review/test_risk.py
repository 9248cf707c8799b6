from __future__ import annotations

import pytest

from infra_agent.changes.change import LaunchChange
from infra_agent.review.risk import STRICTNESS, derive_risk, needs_answers
from infra_agent.stack.engines import get_engine
from infra_agent.stack.engines.base import RiskClass

TABLE = tuple(get_engine("transformers").parameters())


def change(name: str, value: bool | int | str = True) -> LaunchChange:
    return LaunchChange(parameter=name, value=value)


def test_every_class_has_its_place_in_the_order_of_strictness() -> None:
    assert set(STRICTNESS) == set(RiskClass)


@pytest.mark.parametrize(
    ("name", "risk", "gated"),
    [
        ("continuous_batching", RiskClass.NUMERICS_MINOR, False),
        ("attn_implementation", RiskClass.NUMERICS_MINOR, False),
        ("dtype", RiskClass.NUMERICS, True),
        ("quantization", RiskClass.NUMERICS, True),
        ("cb_num_blocks", RiskClass.MEMORY, True),
        ("trust_remote_code", RiskClass.PRODUCTION, True),
    ],
)
def test_the_class_comes_from_the_engines_table(name: str, risk: RiskClass, gated: bool) -> None:
    found = derive_risk([change(name)], TABLE)
    assert (found.risk, found.gated) == (risk, gated)


def test_the_strictest_of_several_changes_wins_and_all_reasons_are_given() -> None:
    found = derive_risk([change("continuous_batching"), change("dtype", "float32")], TABLE)
    assert found.risk is RiskClass.NUMERICS
    assert len(found.reasons) == 2
    assert "numerics" in found.reasons[0]


def test_an_unknown_parameter_waits_for_a_person() -> None:
    found = derive_risk([change("turbo")], TABLE)
    assert found.risk is RiskClass.PRODUCTION
    assert found.gated


def test_both_numeric_classes_demand_the_answer_check_whatever_the_goal_says() -> None:
    assert [risk for risk in RiskClass if needs_answers(risk)] == [RiskClass.NUMERICS_MINOR, RiskClass.NUMERICS]
