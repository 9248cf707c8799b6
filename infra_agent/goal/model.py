"""The Goal: metric, direction, target, load, constraints, budget and scope, as one checked model.

The model is built from text (`goal.parse`) or from a TOML file (`goal.files`); both give the same type.
All times are seconds, all sizes bytes, all rates per second.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from infra_agent.goal.declared import DeclaredMetric


class Metric(StrEnum):
    """What can be tuned for. Definitions: docs/metrics.md."""

    OUTPUT_TOK_PER_S = "output_tok_per_s"
    TOTAL_TOK_PER_S = "total_tok_per_s"
    REQUESTS_PER_S = "requests_per_s"
    TTFT_S = "ttft_s"
    TPOT_S = "tpot_s"
    ITL_S = "itl_s"
    E2E_S = "e2e_s"
    GOODPUT_PER_S = "goodput_per_s"
    STARTUP_S = "startup_s"
    MEMORY_BYTES = "memory_bytes"


HIGHER_IS_BETTER = frozenset(
    {Metric.OUTPUT_TOK_PER_S, Metric.TOTAL_TOK_PER_S, Metric.REQUESTS_PER_S, Metric.GOODPUT_PER_S}
)
LATENCIES = frozenset({Metric.TTFT_S, Metric.TPOT_S, Metric.ITL_S, Metric.E2E_S})
AnyMetric = Metric | DeclaredMetric
"""A metric of serving, or one that the stack declares."""


def higher_is_better(metric: AnyMetric) -> bool:
    """Which way a metric is better."""
    return metric.direction == "maximise" if isinstance(metric, DeclaredMetric) else metric in HIGHER_IS_BETTER


class Direction(StrEnum):
    """Which way is better."""

    MAXIMISE = "maximise"
    MINIMISE = "minimise"


class Statistic(StrEnum):
    """How a metric is summarised. Rates, start-up time and memory have one value: `value`."""

    VALUE = "value"
    MEAN = "mean"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Target(_Model):
    """`ratio`: candidate / stock must reach `value` (2.0 = double, 0.7 = 30 % less). `absolute`: the metric itself."""

    kind: Literal["ratio", "absolute"]
    value: float = Field(gt=0)


class Load(_Model):
    """Closed loop at `concurrency`, or Poisson arrivals at `rate_per_s`."""

    arrivals: Literal["closed", "poisson"] = "closed"
    concurrency: int | None = Field(default=None, ge=1, le=4096)
    rate_per_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _one_of_both(self) -> Load:
        if (self.arrivals == "closed") != (self.concurrency is not None):
            raise ValueError("closed arrivals need a concurrency, and only they")
        if (self.arrivals == "poisson") != (self.rate_per_s is not None):
            raise ValueError("poisson arrivals need rate_per_s, and only they")
        return self


class Limit(_Model):
    """A constraint on another metric: `metric` at `statistic` is at most / at least `value`.

    `kind`: `value` is a level of the metric (`absolute`), or a ratio to what it was before the change (`ratio`).
    """

    metric: AnyMetric
    statistic: Statistic
    bound: Literal["at_most", "at_least"]
    value: float = Field(gt=0)
    kind: Literal["absolute", "ratio"] = "absolute"


class Constraints(_Model):
    """What must stay true. `answers_unchanged`: greedy answers agree with the baseline's (docs/answers.md)."""

    answers_unchanged: bool = False
    limits: tuple[Limit, ...] = ()


class Scope(_Model):
    """What may change. The stack file narrows it further; nothing widens it."""

    parameters: bool = True
    code: bool = False


class SpendingCaps(_Model):
    """Ceilings beside the wall clock, for everything the run does; None: no ceiling.

    `tokens` counts input and output of a language model together, `turns` the actions a brain may ask for.
    """

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, gt=0)
    launches: int | None = Field(default=None, gt=0)
    disk_bytes: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    turns: int | None = Field(default=None, gt=0)
    gpu_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Goal(_Model):
    """One goal, complete and checkable before anything is spent.

    `load` and `budget_s` may be None: the stack's default is then used and echoed. `budget_s` is wall clock, `budget`
    everything else that has a ceiling.
    `slo` is set only for goodput: what a request must satisfy to count.
    """

    metric: AnyMetric
    statistic: Statistic
    direction: Direction
    target: Target
    load: Load | None = None
    slo: tuple[Limit, ...] = ()
    constraints: Constraints = Constraints()
    budget_s: float | None = Field(default=None, gt=0)
    budget: SpendingCaps = SpendingCaps()
    scope: Scope = Scope()
    text: str = ""

    @model_validator(mode="after")
    def _coherent(self) -> Goal:
        higher = higher_is_better(self.metric)
        if higher != (self.direction is Direction.MAXIMISE):
            raise ValueError(f"{self.metric.value} is {'raised' if higher else 'lowered'}, not the opposite")
        if self.target.kind == "ratio" and (self.target.value > 1) != higher:
            word = "above" if higher else "below"
            raise ValueError(f"a ratio target for {self.metric.value} lies {word} 1")
        if (self.statistic is Statistic.VALUE) == (self.metric in LATENCIES):
            raise ValueError("latencies need a percentile or mean; other metrics have none")
        if (self.metric is Metric.GOODPUT_PER_S) != bool(self.slo):
            raise ValueError("goodput needs an SLO, and only goodput has one")
        if any(limit.kind == "ratio" for limit in self.slo):
            raise ValueError("an SLO is a level that each request must keep, not a ratio")
        return self
