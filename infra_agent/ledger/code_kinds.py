"""The parts of events that are about code: a source as it was taken into a run, and a candidate's patch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class SourceTaken(BaseModel):
    """One source as it was copied into the run. `shared` stays in the original, `holes` are seen as empty."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    origin: str
    kind: Literal["directory", "package"]
    files: int
    size_bytes: int
    shared: tuple[str, ...] = ()
    holes: tuple[str, ...] = ()


class PatchMade(BaseModel):
    """A candidate's own code change: canonical diff, its SHA-256 (also the artifact's name), and the files named.

    `notes` say what of the diff as it was sent had to be corrected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    diff: str
    digest: str
    artifact: str
    files: tuple[str, ...]
    added: int
    removed: int
    notes: tuple[str, ...] = ()
