"""Observations as structured content."""

from __future__ import annotations

from collections.abc import Sequence

from infra_agent.ledger import kinds as k
from infra_agent.mcp.models import ObservationLine
from infra_agent.publish.report.facts import json_safe

MOST = 40


def observation_lines(made: Sequence[k.ObservationMade]) -> list[ObservationLine]:
    """The newest observations of an action, in order; those of single blocks are left to the ledger."""
    shown = [each for each in made if each.purpose not in ("block", "final")][-MOST:]
    return [
        ObservationLine(
            id=each.id,
            probe=str(each.observation.get("probe", "")),
            rung=str(each.observation.get("rung", "")),
            candidate=each.candidate,
            verdict=str(each.observation.get("verdict", "")),
            summary=str(each.observation.get("summary", "")),
            quantities=json_safe(list(each.observation.get("quantities", ()))),
            signals=json_safe(dict(each.observation.get("signals", {}))),
        )
        for each in shown
    ]
