from __future__ import annotations

import pytest

from infra_agent.harness.proving import is_futile
from infra_agent.judge.types import Decision, Estimate, Look


def look(blocks: int, ratio: float, decision: Decision | None = None) -> Look:
    found = Estimate(ratio=ratio, low=ratio * 0.8, high=ratio * 1.2, p=None, n=blocks, confidence=0.99, method="t")
    return Look(blocks=blocks, alpha=0.01, estimate=found, decision=decision, reason="")


@pytest.mark.parametrize(
    ("blocks", "ratio", "stops"),
    [(3, 0.96, True), (3, 0.98, False), (3, 1.02, False), (6, 0.99, True), (6, 1.0, True), (9, 1.01, False)],
)
def test_a_proof_stops_early_only_when_no_gain_is_in_sight(blocks: int, ratio: float, stops: bool) -> None:
    assert is_futile(look(blocks, ratio)) is stops


def test_a_decided_look_is_never_futile() -> None:
    assert not is_futile(look(6, 0.9, Decision.REJECTED))
