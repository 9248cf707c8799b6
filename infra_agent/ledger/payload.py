"""What every event payload has in common, and the words that several kinds share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from infra_agent.stack.model import ParameterValue

Lane = Literal["agent", "honesty", "final"]
Settings = dict[str, ParameterValue]
SpendKind = Literal["tokens_in", "tokens_out", "usd", "launches", "disk_bytes", "gpu_s"]
"""What is budgeted beside wall clock (counted by time stamps) and turns (counted by actions)."""
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EventData(BaseModel):
    """Base of all event payloads. `synced` kinds are flushed to disk before the program goes on.

    `ended_by`: for an intent, the kinds that end it; they carry the same `id` or `turn`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str]
    synced: ClassVar[bool] = False
    ended_by: ClassVar[tuple[str, ...]] = ()


class EstimateData(BaseModel):
    """A judge.types.Estimate as stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ratio: float
    low: float
    high: float
    p: float | None
    n: int
    confidence: float
    method: str
