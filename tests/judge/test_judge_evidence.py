"""One candidate's evidence: which figures are compared, what stalls and constraints do to a look."""

from __future__ import annotations

import math

import numpy as np
import pytest

from infra_agent.judge.evidence import Evidence, LimitEvidence, Stalls, limit_guard, look_at
from infra_agent.judge.stalls import more_stalls_p, stall_guard
from infra_agent.judge.types import Decision

NINE = 9
LOSS = -math.log(0.64)


def gain(size: float, blocks: int = NINE, spread: float = 0.004) -> tuple[float, ...]:
    return tuple(size + spread * (-1) ** i * (1 + i / blocks) for i in range(blocks))


def arm(blocks: int, *stalled: int) -> Stalls:
    return Stalls(
        stalled=tuple(i in stalled for i in range(blocks)), loss=tuple(LOSS * (i in stalled) for i in range(blocks))
    )


def measured(true_log: float, base: Stalls, candidate: Stalls, blocks: int = NINE) -> Evidence:
    plain = [log + b - c for log, b, c in zip(gain(true_log, blocks), base.loss, candidate.loss, strict=True)]
    return Evidence(plain=tuple(plain), stalls=(base, candidate))


def test_without_stalls_both_figures_are_the_same():
    found = measured(0.05, arm(NINE), arm(NINE))
    assert found.stall_free == found.plain == found.log_ratios
    assert look_at(found).decision is Decision.ACCEPTED


def test_rare_stalls_are_left_out_of_what_is_compared_and_told():
    found = measured(0.05, arm(NINE, 2), arm(NINE, 6))
    look = look_at(found)
    assert found.basis == "stall-free"
    assert found.log_ratios == pytest.approx(gain(0.05))
    assert look.decision is Decision.ACCEPTED
    assert [guard.reason for guard in look.guards if guard.name == "stalls"] == [
        "no sign of more stalls: stalled in 1 of 9 runs, the base in 1 (p 0.75)"
    ]


def test_stalls_in_more_than_a_quarter_of_the_runs_are_no_exception():
    found = measured(0.05, arm(NINE, 0, 1), arm(NINE, 5, 6, 7))
    assert found.basis == "plain"
    assert found.log_ratios == found.plain


def test_a_candidate_that_stalls_in_every_run_is_slower_whatever_it_is_between_stalls():
    look = look_at(measured(0.2, arm(NINE), arm(NINE, *range(NINE))))
    assert (look.decision, look.cause) == (Decision.REJECTED, "slower")


def test_a_candidate_that_stalls_more_is_rejected_for_that():
    found = measured(1.5, arm(16), arm(16, 1, 4, 6, 9, 11, 14), blocks=16)
    look = look_at(found)
    assert found.basis == "stall-free"
    assert (look.decision, look.cause) == (Decision.REJECTED, "stalls")
    assert "it stalls more: stalled in 6 of 16 runs, the base in 0" in look.reason


def test_some_sign_of_more_stalls_puts_an_acceptance_off_and_at_last_leaves_it_open():
    found = measured(1.5, arm(NINE), arm(NINE, 1, 4, 6, 8))
    look, last = look_at(found), look_at(found, max_blocks=NINE)
    assert look.decision is None
    assert "it may stall more" in look.reason
    assert (last.decision, last.cause) == (Decision.INCONCLUSIVE, "unclear")


def test_a_gain_that_its_stalls_eat_up_is_not_accepted():
    look = look_at(measured(0.03, arm(NINE), arm(NINE, 3, 7)))
    assert look.estimate.low > 1
    assert look.decision is None
    assert "with what stalls cost on average it comes to x0.9" in look.reason


def test_a_base_that_stalls_speaks_for_no_candidate():
    look = look_at(measured(0.0, arm(16, 2, 5, 9, 12, 14, 15), arm(16), blocks=16))
    assert look.decision is not Decision.ACCEPTED


def test_the_stall_test_is_the_coin_of_the_blocks_in_which_one_arm_stalled():
    base, candidate = np.array([[True, False, False, True]]), np.array([[True, True, True, False]])
    assert more_stalls_p(base, candidate)[0] == pytest.approx(4 / 8)
    assert more_stalls_p(np.zeros((1, 5), bool), np.ones((1, 5), bool))[0] == pytest.approx(1 / 32)
    assert more_stalls_p(np.zeros((1, 5), bool), np.zeros((1, 5), bool))[0] == 1.0
    assert stall_guard([False] * 6, [True] * 6).state == "broken"


def limited(*beyond: float | None) -> Evidence:
    return Evidence(plain=gain(0.05), limits=(LimitEvidence(name="ttft_s at most x1.05 of the base", beyond=beyond),))


def test_a_constraint_must_be_shown_to_hold_on_the_same_blocks():
    clear = look_at(limited(*[-0.05 + x for x in gain(0.0)]))
    near = look_at(limited(*[-0.001 + x for x in gain(0.0)]))
    broken = look_at(limited(*[0.05 + x for x in gain(0.0)]))
    assert clear.decision is Decision.ACCEPTED
    assert near.decision is None
    assert "not shown to hold" in near.reason
    assert (broken.decision, broken.cause) == (Decision.REJECTED, "infeasible")


def test_a_constraint_that_was_not_measured_in_a_block_is_not_shown_to_hold():
    look = look_at(limited(*[-0.5] * 8, None), max_blocks=NINE)
    assert (look.decision, look.cause) == (Decision.INCONCLUSIVE, "unclear")
    assert "could not be measured in every block" in look.reason


def test_a_candidate_without_a_gain_is_rejected_as_that_and_not_for_its_constraint():
    logs = tuple(-0.2 + x for x in gain(0.0))
    look = look_at(Evidence(plain=logs, limits=(LimitEvidence(name="memory", beyond=(0.5,) * NINE),)))
    assert look.cause == "slower"


def test_the_level_of_a_constraint_is_the_looks():
    beyond = tuple(-0.012 + x for x in gain(0.0))
    assert limit_guard(LimitEvidence(name="x", beyond=beyond), 0.2).state == "holds"
    assert limit_guard(LimitEvidence(name="x", beyond=beyond[:3]), 0.005).state == "open"


def test_the_evidence_of_fewer_blocks_is_what_was_known_then():
    found = measured(0.05, arm(NINE, 2), arm(NINE, 6))
    early = found.first(3)
    assert len(early.plain) == 3
    assert early.stalls is not None
    assert early.stalls[0].stalled == (False, False, True)


def test_only_planned_looks_are_taken():
    with pytest.raises(ValueError, match="planned look"):
        look_at(Evidence(plain=(0.1,) * 4))
