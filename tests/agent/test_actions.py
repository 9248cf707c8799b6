from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra_agent.agent.actions import ACTION, Action

FORBIDDEN = {"gain", "verdict", "confidence", "risk", "accepted", "speedup"}


def models() -> list[type]:
    union = get_args(Action)[0]
    return list(get_args(union))


def test_no_action_can_state_a_gain_a_verdict_a_risk_or_a_confidence() -> None:
    fields = {name for model in models() for name in model.model_fields}
    assert not fields & FORBIDDEN


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "approve", "candidate": "C1"},
        {"kind": "prove"},
        {"kind": "prove", "candidate": "C1", "verdict": "accepted"},
        {"kind": "propose", "hypothesis": "H1", "changes": [], "base": "best"},
        {"kind": "propose", "hypothesis": "H1", "changes": [{"parameter": "x", "value": 1}], "base": "C1"},
        {"kind": "conclude", "reason": "x" * 501},
        {},
        [],
        "prove",
    ],
)
def test_a_malformed_action_is_refused(document: object) -> None:
    with pytest.raises(ValidationError):
        ACTION.validate_python(document)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
        max_leaves=12,
    )
)
def test_arbitrary_documents_are_refused_or_are_one_of_the_known_actions(document: object) -> None:
    try:
        action = ACTION.validate_python(document)
    except ValidationError:
        return
    assert isinstance(action, tuple(models()))
