from __future__ import annotations

import math

import pytest

from infra_agent.judge.evidence import Evidence, LimitEvidence
from infra_agent.judge.exact import exact_estimate, exact_guard, exact_look, screen_exact
from infra_agent.judge.types import Decision

GAIN, LOSS = math.log(2.0), math.log(0.5)


def look(*logs: float, beyond: tuple[float | None, ...] = ()) -> Decision | None:
    limits = (LimitEvidence(name="size", beyond=beyond),) if beyond else ()
    return exact_look(Evidence(plain=logs, limits=limits), 0.01).decision


def test_a_gain_on_every_seed_is_accepted_and_its_interval_is_its_range() -> None:
    found = exact_look(Evidence(plain=(GAIN, GAIN, math.log(3.0))), 0.01)
    assert found.decision is Decision.ACCEPTED
    assert (found.estimate.ratio, found.estimate.low, found.estimate.high) == pytest.approx((2.0, 2.0, 3.0))
    assert found.estimate.p is None


def test_nothing_gained_is_rejected_and_so_is_a_loss() -> None:
    assert look(0.0, 0.0, 0.0) is Decision.REJECTED
    assert look(math.log(1.005)) is Decision.REJECTED
    assert look(LOSS, LOSS, LOSS) is Decision.REJECTED


def test_better_on_some_inputs_and_worse_on_others_is_no_gain() -> None:
    assert look(GAIN, GAIN, LOSS) is Decision.INCONCLUSIVE


def test_a_gain_that_breaks_a_constraint_or_leaves_it_open_is_rejected() -> None:
    assert look(GAIN, GAIN, beyond=(-0.1, -0.1)) is Decision.ACCEPTED
    assert look(GAIN, GAIN, beyond=(-0.1, 0.1)) is Decision.REJECTED
    assert look(GAIN, GAIN, beyond=(-0.1, None)) is Decision.REJECTED
    assert exact_guard(LimitEvidence(name="size", beyond=(0.0, 0.0))).state == "holds"


def test_a_screen_promotes_a_gain_and_drops_the_rest() -> None:
    assert screen_exact(GAIN)[1] == "promote"
    assert screen_exact(0.0)[1] == "reject"
    assert screen_exact(LOSS)[1] == "reject"


def test_no_figure_and_one_that_is_not_finite_are_errors() -> None:
    for logs in ([], [math.nan], [0.0, math.inf]):
        with pytest.raises(ValueError):
            exact_estimate(logs)
