"""What an operation does to the world, declared per kind: the ground on which a brain's action is let through or not.

Covered: the classes, and which of them a brain may ask for. Not covered: which action has which (`agent.effects`).
"""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """Effect classes, the harmless first."""

    RECORD = "record"
    """Writes a line into the run's own ledger."""
    MEASURE = "measure"
    """Launches engines behind the run's walls and measures them; nothing lasts but the record."""
    APPLY = "apply"
    """Makes a change part of the best stack."""
    APPROVE = "approve"
    """Gives a person's consent."""
    PUBLISH = "publish"
    """Leaves this machine."""


BRAIN_MAY = frozenset({Effect.RECORD, Effect.MEASURE})
"""All that a brain can cause. Applying a gated change, approving and publishing are a person's."""
