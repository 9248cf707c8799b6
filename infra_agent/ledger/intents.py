"""Intents: events that are stored, and flushed, before something is done that costs or lasts.

A kind that is an intent names the kinds that may end it (`ended_by`). After a crash an intent without its end is
*unknown*: the thing may or may not have happened. Whoever resumes looks for the effect first and never just repeats;
docs/ledger.md says for each kind how.

Covered: which intents of a run are open. Not covered: what to do about each (`harness.leftovers`, `agent.under_way`).
"""

from __future__ import annotations

from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState, Stamped


def open_intents(state: RunState) -> tuple[Stamped, ...]:
    """Intents whose end is not in the ledger, oldest first."""
    begun: dict[tuple[tuple[str, ...], str | int], Stamped] = {}
    for at in state.events:
        name = _name(at.data)
        if at.data.ended_by:
            begun[at.data.ended_by, name] = at
        else:
            for ends in [ends for ends, other in begun if at.data.kind in ends and other == name]:
                del begun[ends, name]
    return tuple(begun.values())


def _name(data: k.EventData) -> str | int:
    """What an intent and its end have in common."""
    found: str | int = getattr(data, "id", getattr(data, "turn", ""))
    return found
