"""Holm's correction: by hand, and its properties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.judge.claims import holm

P_VALUES = st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1), min_size=1, max_size=8)


def test_three_claims_by_hand():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03})
    assert {name: claim.p_adjusted for name, claim in found.items()} == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert {name for name, claim in found.items() if claim.survives} == {"a"}
    assert {claim.family for claim in found.values()} == {3}


def test_one_claim_is_left_as_it_is_and_none_gives_none():
    assert holm({"a": 0.02})["a"].p_adjusted == 0.02
    assert holm({}) == {}


def test_twenty_useless_candidates_do_not_make_one_success():
    assert not holm({f"C{n}": p for n, p in enumerate([0.02] + [0.5] * 19)})["C0"].survives


@given(P_VALUES)
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
def test_adjusting_never_helps_keeps_the_order_and_stays_a_probability(p_values):
    found = holm(p_values)
    ordered = sorted(found.values(), key=lambda claim: claim.p)
    assert all(claim.p <= claim.p_adjusted <= 1 for claim in ordered)
    assert all(one.p_adjusted <= other.p_adjusted for one, other in zip(ordered, ordered[1:], strict=False))


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="p-value"):
        holm({"a": p})
