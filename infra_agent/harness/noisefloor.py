"""The noise floor of this machine with this stack under this load: stored by `doctor --noise`, used by every run.

A floor is found again only where everything that it depends on is the same: machine, engine version, stack and weights,
workload and load, and the judge's rules. Anything else is another floor, so a stale one is never used.
Covered: storing and finding floors, one file each, written whole or not at all.
Not covered: noise that changes with the hour; `measured_at` says how old a floor is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra_agent.goal.model import Goal
from infra_agent.judge import RULES_VERSION
from infra_agent.ledger import kinds as k
from infra_agent.stack.cache import state_dir

FOLDER = "noise"


class FloorKey(BaseModel):
    """All that a noise floor depends on."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rules: str
    machine: dict[str, str | int | float]
    stack_digest: str
    workload_sha256: str
    load: dict[str, str | int | float]

    @property
    def digest(self) -> str:
        """SHA-256 of the key: the floor's name."""
        return hashlib.sha256(rfc8785.dumps(self.model_dump(mode="json"))).hexdigest()


class MetricNoise(BaseModel):
    """Noise of one figure, as standard deviations of its log. `degrees`: of freedom behind them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    block_sd: float = Field(ge=0)
    drift_sd: float = Field(ge=0)
    degrees: int = Field(ge=1)


class NoiseFloor(BaseModel):
    """One A/A calibration. `metrics`: name of the figure (`output_tok_per_s`, `ttft_p50_s`) → its noise."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    key: FloorKey
    measured_at: str
    blocks: int = Field(ge=3)
    block_s: float = Field(gt=0)
    stalled: int = Field(ge=0)
    metrics: dict[str, MetricNoise]


def key_of(started: k.RunStarted) -> FloorKey:
    """The key of a run's floor."""
    goal, stack = started.goal, started.stack
    return FloorKey(
        rules=RULES_VERSION,
        machine=started.environment,
        stack_digest=started.stack_digest,
        workload_sha256=started.workload_sha256,
        load=_load(goal, stack.workload.concurrency, stack.workload.warmup_requests, stack.workload.stream),
    )


def find_floor(key: FloorKey, folder: Path | None = None) -> NoiseFloor | None:
    """The floor of this key; None when there is none, or its file cannot be read or is another's."""
    path = _path(key, folder)
    try:
        found = NoiseFloor.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return found if found.key == key else None


def store_floor(floor: NoiseFloor, folder: Path | None = None) -> Path:
    """Write a floor; an older one of the same key is replaced. Raises OSError."""
    path = _path(floor.key, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(floor.model_dump(mode="json"), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def _path(key: FloorKey, folder: Path | None) -> Path:
    return (folder if folder is not None else state_dir() / FOLDER) / f"{key.digest[:32]}.json"


def _load(goal: Goal, concurrency: int, warmup_requests: int, stream: bool) -> Mapping[str, Any]:
    asked: dict[str, Any] = {"warmup_requests": warmup_requests, "stream": int(stream)}
    if goal.load is not None and goal.load.rate_per_s is not None:
        return {**asked, "rate_per_s": goal.load.rate_per_s}
    named = goal.load.concurrency if goal.load is not None else None
    return {**asked, "concurrency": named or concurrency}
