"""Claims of a run among all that was tested: the family, the p of a whole sequence, and what is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent.sessions import add_candidate, session_in

from infra_agent.harness.claims import gain_p_values, record_claims
from infra_agent.harness.session import Session
from infra_agent.judge.spending import SPENDING
from infra_agent.ledger import kinds as k


def looked(session: Session, candidate: str, p: float, ratio: float = 1.1, blocks: int = 9, **more: Any) -> None:
    found = k.EstimateData(ratio=ratio, low=ratio - 0.05, high=ratio + 0.05, p=p, n=blocks, confidence=0.99, method="x")
    session.ledger.append(
        k.Looked(
            candidate=candidate, stage="prove", blocks=blocks, alpha=0.01, estimate=found, decision=None, reason="",
            **more,
        )
    )  # fmt: skip


def claims(session: Session, family: str) -> dict[str, k.ClaimData]:
    events = [e.data for e in session.state.events if isinstance(e.data, k.ClaimsAdjusted) and e.data.family == family]
    return {claim.candidate: claim for claim in events[-1].claims} if events else {}


def test_every_candidate_that_was_judged_is_in_the_family_whatever_became_of_it(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        for id in ("C1", "C2", "C3", "C4"):
            add_candidate(session, id)
        looked(session, "C1", 0.0001, blocks=3)
        looked(session, "C2", 0.4)
        looked(session, "C3", 0.0001, ratio=0.8)
        record_claims(session)
        found = claims(session, "gain")
    assert set(found) == {"C1", "C2", "C3"}
    assert found["C1"].p == 0.0001
    assert found["C1"].p_adjusted == pytest.approx(0.0003)
    assert found["C1"].survives
    assert found["C3"].p == 1.0


def test_the_p_of_a_late_look_holds_what_earlier_looks_could_spend(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        add_candidate(session)
        looked(session, "C1", 0.3, blocks=3)
        looked(session, "C1", 0.2, blocks=6)
        looked(session, "C1", 0.001, blocks=9)
        assert gain_p_values(session.state) == {"C1": pytest.approx(0.001 + SPENDING[3] + SPENDING[6])}


def test_stalls_are_a_family_of_their_own(tmp_path: Path) -> None:
    guard = k.GuardData(name="stalls", state="open", p=0.04, reason="")
    with session_in(tmp_path) as session:
        for id in ("C1", "C2"):
            add_candidate(session, id)
            looked(session, id, 0.001, guards=(guard,))
        record_claims(session)
        found = claims(session, "stalls")
    assert {claim.p_adjusted for claim in found.values()} == {0.08}
    assert not any(claim.survives for claim in found.values())


def test_the_same_state_is_written_down_once_and_nothing_where_nothing_was_judged(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        record_claims(session)
        assert not claims(session, "gain")
        add_candidate(session)
        looked(session, "C1", 0.001)
        record_claims(session)
        record_claims(session)
        written = [event for event in session.state.events if isinstance(event.data, k.ClaimsAdjusted)]
    assert len(written) == 1
