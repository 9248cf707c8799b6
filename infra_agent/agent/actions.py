"""Actions: the only things a brain can ask for. A discriminated union, checked before anything runs.

No action has a field for a gain, a verdict, a risk class or a confidence: those are the harness's to compute.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from infra_agent.stack.model import ParameterValue

MAX_DIFF_BYTES = 200_000


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prediction(_Action):
    """Expected ratio (candidate / base, above 1 is better) of a rung's figure, as a range."""

    rung: Literal["static", "numeric", "micro", "trace", "events", "load"]
    metric: str = Field(max_length=64)
    low: float = Field(gt=0)
    high: float = Field(gt=0)


class MeasureAction(_Action):
    """Run a probe on a configuration: `stock`, `best` or a candidate's id."""

    kind: Literal["measure"] = "measure"
    probe: str = Field(max_length=64)
    target: str = Field(default="best", max_length=16)


class HypothesiseAction(_Action):
    """State a cause before testing it."""

    kind: Literal["hypothesise"] = "hypothesise"
    family: str = Field(max_length=64, description="lever family, e.g. batching")
    cause: str = Field(max_length=500)
    place: str = Field(max_length=200)
    refuted_by: str = Field(max_length=300)
    predictions: tuple[Prediction, ...] = Field(min_length=1, max_length=6)
    source: str = Field(default="", max_length=100, description="playbook or skill it comes from")


class ParameterChange(_Action):
    """Set one launch parameter."""

    parameter: str = Field(max_length=100)
    value: ParameterValue


class ProposeAction(_Action):
    """Build a candidate for a hypothesis and let it climb the ladder up to the screen: parameters, code, or both."""

    kind: Literal["propose"] = "propose"
    hypothesis: str = Field(max_length=16, description="id such as H1; empty for plain search")
    changes: tuple[ParameterChange, ...] = Field(default=(), max_length=16)
    diff: str | None = Field(
        default=None, min_length=1, max_length=MAX_DIFF_BYTES, description="unified diff against the base's sources"
    )
    base: Literal["stock", "best"] = "best"

    @model_validator(mode="after")
    def _changes_something(self) -> ProposeAction:
        if not self.changes and self.diff is None:
            raise ValueError("a candidate changes parameters, code, or both: give changes or diff")
        if self.diff is not None and len(self.diff.encode("utf-8", "surrogatepass")) > MAX_DIFF_BYTES:
            raise ValueError(f"the diff has more than {MAX_DIFF_BYTES} bytes")
        return self


class ProveAction(_Action):
    """Take a screened candidate to the judge."""

    kind: Literal["prove"] = "prove"
    candidate: str = Field(max_length=16)


class ConcludeAction(_Action):
    """Stop looking. The harness then runs the honesty row and the final relaunch."""

    kind: Literal["conclude"] = "conclude"
    reason: str = Field(max_length=500)


Action = Annotated[
    MeasureAction | HypothesiseAction | ProposeAction | ProveAction | ConcludeAction, Field(discriminator="kind")
]
ACTION: TypeAdapter[Action] = TypeAdapter(Action)
