"""The effect class of every action. An action without a line here is refused, so a new one starts out forbidden."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from infra_agent.agent.actions import (
    ConcludeAction,
    ConsultAction,
    HypothesiseAction,
    MeasureAction,
    ProposeAction,
    ProveAction,
    ReadAction,
    RecallAction,
    SearchAction,
    SearchCodeAction,
)
from infra_agent.review.effects import BRAIN_MAY, Effect

EFFECTS: Mapping[type[BaseModel], Effect] = {
    MeasureAction: Effect.MEASURE,
    ReadAction: Effect.RECORD,
    SearchCodeAction: Effect.RECORD,
    ConsultAction: Effect.RECORD,
    RecallAction: Effect.RECORD,
    HypothesiseAction: Effect.RECORD,
    ProposeAction: Effect.MEASURE,
    ProveAction: Effect.MEASURE,
    SearchAction: Effect.MEASURE,
    ConcludeAction: Effect.RECORD,
}
"""Accepting a proved change of a class that needs no person is the gate's work, not an action's."""


def refusal(action: BaseModel) -> str | None:
    """Why a brain may not ask for this action; None when it may."""
    effect = EFFECTS.get(type(action))
    if effect is None:
        return f"{type(action).__name__} has no declared effect class"
    return None if effect in BRAIN_MAY else f"an action that can {effect.value} is a person's, not a brain's"
