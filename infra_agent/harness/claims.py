"""Corrects what a run claims for how much was tried: Holm over every candidate that the judge looked at.

Two families: gains, and "stalls more". A candidate that came out slower or unclear is in the family like the others,
since it was a chance to be lucky too.
Covered: the brain's own candidates, proved in blocks; recorded once per state of affairs, also after a resume.
Not covered: screens, which claim nothing; the plain search, whose row claims one candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from infra_agent.harness.session import Session
from infra_agent.judge.claims import holm
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.spending import overall_p
from infra_agent.judge.stalls import NAME
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState


def record_claims(session: Session) -> None:
    """Write the adjusted p-values of both families, where there is anything to adjust."""
    families: tuple[tuple[Literal["gain", "stalls"], Mapping[str, float]], ...] = (
        ("gain", gain_p_values(session.state)),
        ("stalls", stall_p_values(session.state)),
    )
    for family, p_values in families:
        adjusted = holm(p_values)
        claims = tuple(
            k.ClaimData(candidate=id, p=found.p, p_adjusted=found.p_adjusted, survives=found.survives)
            for id, found in adjusted.items()
        )
        event = k.ClaimsAdjusted(family=family, claims=claims)
        if claims and not any(stamped.data == event for stamped in session.state.events):
            session.ledger.append(event)


def gain_p_values(state: RunState) -> dict[str, float]:
    """For each judged candidate the p of its whole sequence of looks, for a gain: 1 where it came out slower.

    Exact figures have none: nothing was left to chance.
    """
    return {
        id: overall_p(look.estimate.p, look.blocks) if look.estimate.ratio > 1 and look.estimate.p is not None else 1.0
        for id, look in _last_looks(state).items()
        if look.estimate.p is not None or look.blocks >= LOOKS[0]
    }


def stall_p_values(state: RunState) -> dict[str, float]:
    """For each judged candidate the p that it does not stall more than its base."""
    found = {}
    for id, look in _last_looks(state).items():
        guard = next((guard for guard in look.guards if guard.name == NAME), None)
        if guard is not None and guard.p is not None:
            found[id] = guard.p
    return found


def _last_looks(state: RunState) -> dict[str, k.Looked]:
    agents = [candidate for candidate in state.candidates.values() if candidate.proposed.lane == "agent"]
    looks = {c.proposed.id: [look for look in c.looks if look.stage == "prove"] for c in agents}
    return {id: taken[-1] for id, taken in looks.items() if taken}
