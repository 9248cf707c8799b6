"""The Stack: what is tuned, how it is launched, what may change, and what it is measured with.

`infra-agent.toml` holds exactly this model (read by `stack.files`); unknown keys are errors there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from infra_agent.goal.declared import METRIC_NAME, MetricSpec

ParameterValue = bool | int | float | str
"""A value of a launch parameter. `True`/`False` switch a flag on or off."""
PACKAGE = "package:"
"""Before the name of a source that is an installed package."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LaunchSpec(_Model):
    """How the engine is started. `parameters` are names of the engine's table; `env` are environment variables."""

    python: str | None = Field(default=None, description="interpreter of the stack's own environment")
    parameters: dict[str, ParameterValue] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    extra_args: tuple[str, ...] = Field(default=(), description="flags the engine's table does not know")
    command: tuple[str, ...] = Field(default=(), description='argv of engine = "command"; {port} is put in')
    health_path: str = Field(default="/health", pattern=r"^/", description='engine = "command": answers 200 when up')
    state_path: str | None = Field(
        default=None, pattern=r"^/", description='engine = "command": answers a JSON object of what is in effect'
    )


class ParameterSpec(_Model):
    """A launch parameter of a server of one's own (`engine = "command"`), declared in the stack file.

    A risk that is not stated is not known, and what is not known waits for a person. `signal` is a key of what
    `launch.state_path` answers; without one only some difference in the running engine can prove the parameter.
    """

    flag: str = Field(pattern=r"^(--?[A-Za-z0-9][A-Za-z0-9._-]*|env:[A-Za-z_][A-Za-z0-9_]*)$")
    type: Literal["bool", "int", "float", "str"]
    risk: Literal[
        "routine", "trade", "memory", "numerics-minor", "concurrency", "numerics", "production", "unknown"
    ] = "unknown"
    title: str = ""
    family: str = "declared"
    default: ParameterValue | None = None
    choices: tuple[ParameterValue, ...] = ()
    low: float | None = None
    high: float | None = None
    signal: str | None = None
    evidence: str = ""


class Experiment(_Model):
    """`engine = "experiment"`: one run of `launch.command` is one measurement."""

    timeout_s: float = Field(default=120, gt=0, le=3600, description="deadline of one run")
    needs: tuple[str, ...] = Field(default=(), description="files and directories beside the sources that a run reads")


class ProbeSpec(_Model):
    """`[probes.NAME]`: a local probe that may be run on this stack, and with which parameters.

    `required`: every candidate must pass it before it is measured; without a rung of its own a probe has its kind's.
    """

    probe: str = Field(default="program", max_length=64, description="kind of probe, see `infra-agent probe list`")
    rung: Literal["static", "numeric", "micro", "trace"] | None = None
    command: tuple[str, ...] = Field(
        default=(), description='probe = "program": argv, {python} {source} {seed} {result}'
    )
    required: bool = False
    timeout_s: float = Field(default=60, gt=0, le=3600)
    parameters: dict[str, Any] = Field(default_factory=dict)


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


GatedClass = Literal["memory", "concurrency", "numerics", "production"]
"""Risk classes that wait for a person (`review.risk.GATED`)."""
WEEK_S = 7 * 86400


class ReviewerEntry(_Model):
    """A person who may approve, with one of their public keys. A person with two keys has two entries of one name."""

    name: str = Field(min_length=1, max_length=80)
    key: str = Field(max_length=4096, description="an OpenSSH public key: ssh-ed25519 AAAA...")
    classes: tuple[GatedClass, ...] | None = Field(default=None, description="may approve these; all when not given")
    valid_from: str | None = Field(default=None, description="date and time with a zone")
    valid_until: str | None = Field(default=None, description="date and time with a zone")

    @field_validator("valid_from", "valid_until", mode="before")
    @classmethod
    def _zoned(cls, value: Any) -> Any:
        """TOML has dates of its own; the ledger keeps text."""
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        if moment.tzinfo is None:
            raise ValueError("a date and time with its zone is needed, e.g. 2027-01-31T12:00:00Z")
        return moment.isoformat()


class ReviewTable(_Model):
    """Who approves changes of which class. Without this table the local user's own key is the one reviewer."""

    reviewers: tuple[ReviewerEntry, ...] = ()
    required: dict[GatedClass, int] = Field(default_factory=dict, description="persons needed per class; 1 else")
    expires_s: float = Field(default=WEEK_S, gt=0, le=366 * 86400, description="how long a signature may be used")
    allowed_signers: str | None = Field(default=None, description="OpenSSH allowed_signers file with more reviewers")

    @field_validator("required")
    @classmethod
    def _at_least_one(cls, value: dict[GatedClass, int]) -> dict[GatedClass, int]:
        if any(count < 1 for count in value.values()):
            raise ValueError("at least one person is needed")
        return value


MetricName = Annotated[str, Field(pattern=METRIC_NAME)]


class Stack(_Model):
    """One system under test.

    `space`: parameter name → values the search and the brain may try; a name outside it may not be changed.
    `served_model`: the name that answers must carry (identity); defaults to `model`.
    `review`: who approves; no part of the stack's identity, because it changes nothing that is measured.
    """

    name: str
    engine: str
    model: str = ""
    served_model: str | None = None
    url: str | None = Field(default=None, description="attach to a running server instead of launching one")
    launch: LaunchSpec = LaunchSpec()
    space: dict[str, tuple[ParameterValue, ...]] = Field(default_factory=dict)
    sources: tuple[str, ...] = Field(
        default=(), description="what may be patched: directories, or package:NAME of the stack's environment"
    )
    patchable: tuple[str, ...] = Field(default=(), description="patterns of files in scope; all of them when empty")
    protected: tuple[str, ...] = Field(default=(), description="patterns of files that are never patched")
    parameters: dict[str, ParameterSpec] = Field(default_factory=dict, description='of engine = "command"')
    metrics: dict[MetricName, MetricSpec] = Field(default_factory=dict, description='of engine = "experiment"')
    experiment: Experiment = Experiment()
    probes: dict[MetricName, ProbeSpec] = Field(default_factory=dict)
    playbooks: str | None = Field(default=None, description="directory with playbooks of this stack's own")
    skills: str | None = Field(default=None, description="directory with NAME/transform.py of this stack's own")
    workload: Workload = Workload()
    reference: Reference = Reference()
    limits: StackLimits = StackLimits()
    review: ReviewTable | None = None
