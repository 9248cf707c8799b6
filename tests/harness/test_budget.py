from __future__ import annotations

import pytest

from infra_agent.errors import BudgetSpent, ExitCode
from infra_agent.harness.budget import Budget


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_budget_counts_from_its_start_and_what_was_spent_before() -> None:
    clock = Clock()
    budget = Budget(60.0, clock, spent_s=15.0)
    clock.now_s += 10.0
    assert budget.elapsed_s() == pytest.approx(25.0)
    assert budget.remaining_s() == pytest.approx(35.0)


def test_what_does_not_fit_is_refused_before_it_is_spent() -> None:
    clock = Clock()
    budget = Budget(60.0, clock)
    budget.require(60.0, "a launch")
    clock.now_s += 30.0
    with pytest.raises(BudgetSpent) as caught:
        budget.require(31.0, "a launch")
    assert caught.value.exit_code is ExitCode.BUDGET
    assert "a launch needs about 31 s" in caught.value.message


def test_nothing_is_left_after_the_end() -> None:
    clock = Clock()
    budget = Budget(10.0, clock)
    clock.now_s += 50.0
    assert budget.remaining_s() == 0.0
