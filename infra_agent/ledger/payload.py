"""The base of all event payloads."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class EventData(BaseModel):
    """Base of all event payloads. `synced` kinds are flushed to disk before the program goes on."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str]
    synced: ClassVar[bool] = False
