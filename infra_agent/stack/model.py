"""The Stack: what is tuned, how it is launched, what may change, and what it is measured with.

`infra-agent.toml` holds exactly this model (read by `stack.files`); unknown keys are errors there.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ParameterValue = bool | int | float | str
"""A value of a launch parameter. `True`/`False` switch a flag on or off."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LaunchSpec(_Model):
    """How the engine is started. `parameters` are names of the engine's table; `env` are environment variables."""

    python: str | None = Field(default=None, description="interpreter of the stack's own environment")
    parameters: dict[str, ParameterValue] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    extra_args: tuple[str, ...] = Field(default=(), description="flags the engine's table does not know")


class Workload(_Model):
    """The requests of one measured window: the same prompts, lengths and seeds in every arm."""

    prompts: str = Field(default="builtin:short-chat", description="builtin:NAME or a JSONL file of {prompt: text}")
    requests: int = Field(default=12, ge=1, description="measured requests of one window")
    warmup_requests: int = Field(default=2, ge=0)
    max_tokens: int = Field(default=32, ge=1)
    endpoint: Literal["chat", "completions"] = "chat"
    stream: bool = True
    concurrency: int = Field(default=4, ge=1, description="used when the goal names no load")
    request_timeout_s: float = Field(default=120, gt=0)


class Reference(_Model):
    """What 'the same answers' means. `oracle`: an in-process float32 run decides close calls."""

    oracle: Literal["transformers-float32", "none"] = "transformers-float32"
    prompts: str = "builtin:answers"
    max_tokens: int = Field(default=48, ge=1)
    tolerance_nat: float = Field(default=0.1, ge=0, description="largest oracle gap that still counts as a near-tie")
    measure_rounding: bool = Field(
        default=True, description="raise the tolerance to what the served type's rounding alone moves (p99, measured)"
    )


class StackLimits(_Model):
    """Deadlines and ceilings of one launch."""

    start_timeout_s: float = Field(default=180, gt=0)
    stop_timeout_s: float = Field(default=10, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    budget_s: float = Field(default=1200, gt=0, description="used when the goal names no budget")
    neighbours: Literal["void", "record"] = Field(
        default="void", description="a neighbour busier than before voids a block, or is only written down"
    )


class Stack(_Model):
    """One system under test.

    `space`: parameter name → values the search and the brain may try; a name outside it may not be changed.
    `served_model`: the name that answers must carry (identity); defaults to `model`.
    """

    name: str
    engine: str
    model: str = ""
    served_model: str | None = None
    url: str | None = Field(default=None, description="attach to a running server instead of launching one")
    launch: LaunchSpec = LaunchSpec()
    space: dict[str, tuple[ParameterValue, ...]] = Field(default_factory=dict)
    sources: tuple[str, ...] = Field(default=(), description="directories whose files may be patched")
    workload: Workload = Workload()
    reference: Reference = Reference()
    limits: StackLimits = StackLimits()
