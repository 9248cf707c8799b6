"""Actions: the only things a brain can ask for. A discriminated union, checked before anything runs.

No action has a field for a gain, a verdict, a risk class, an approval or a confidence: those are the harness's or a
person's. The docstring of an action is what a language model is told about it.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from infra_agent.stack.model import ParameterValue

MAX_DIFF_BYTES = 200_000
Section = Literal[
    "parameters", "hypotheses", "observations", "tried", "families", "readings", "actions", "playbooks", "files"
]
"""Parts of the dossier that may be shortened, and asked for in full."""


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


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


class ReadAction(_Action):
    """Read lines of one file of the stack's sources, or of an engine log named `log:L3`."""

    kind: Literal["read"] = "read"
    path: str = Field(min_length=1, max_length=400, description="relative to a source directory, or log:LAUNCH")
    start_line: int = Field(default=1, ge=1, le=10_000_000)
    lines: int = Field(default=120, ge=1, le=400)


class SearchCodeAction(_Action):
    """Find a fixed text (no regular expression) in the stack's sources."""

    kind: Literal["search_code"] = "search_code"
    text: str = Field(min_length=2, max_length=200)
    files: str = Field(default="*", max_length=100, description="pattern of file names, e.g. *.py")


class ConsultAction(_Action):
    """Show one playbook or skill in full; with an empty name, list them."""

    kind: Literal["consult"] = "consult"
    name: str = Field(default="", max_length=100)


class RecallAction(_Action):
    """Show a section of the dossier in full, from its entry number `start` on."""

    kind: Literal["recall"] = "recall"
    section: Section
    start: int = Field(default=1, ge=1, le=100_000)


class HypothesiseAction(_Action):
    """State a cause before testing it, with what you expect to measure and what would refute it."""

    kind: Literal["hypothesise"] = "hypothesise"
    family: str = Field(max_length=64, description="lever family, e.g. batching")
    cause: str = Field(min_length=1, max_length=500)
    place: str = Field(min_length=1, max_length=200, description="parameter, file and line, kernel or thread")
    refuted_by: str = Field(min_length=1, max_length=300, description="what you would see if you were wrong")
    refuting_probe: str = Field(default="load", max_length=64, description="the cheapest probe that would show it")
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


class SearchAction(_Action):
    """Let the plain search try configurations of these parameters (none named: all) for some minutes."""

    kind: Literal["search"] = "search"
    hypothesis: str = Field(max_length=16)
    parameters: tuple[str, ...] = Field(default=(), max_length=32)
    minutes: float = Field(gt=0, le=600)


class SkippedFamily(_Action):
    """Why a lever family is left untried. `ruled_out` names the observations or candidates that rule it out."""

    family: str = Field(max_length=64)
    disposition: Literal["ruled_out", "not_applicable", "not_worth_it"]
    reason: str = Field(min_length=1, max_length=300)
    evidence: tuple[str, ...] = Field(default=(), max_length=8, description="ids such as O3, C2 or R1")


class ConcludeAction(_Action):
    """Stop looking. The harness then runs the honesty row and the final relaunch."""

    kind: Literal["conclude"] = "conclude"
    reason: str = Field(max_length=500)
    skipped: tuple[SkippedFamily, ...] = Field(default=(), max_length=64, description="a reason per untried family")


Action = Annotated[
    MeasureAction
    | ReadAction
    | SearchCodeAction
    | ConsultAction
    | RecallAction
    | HypothesiseAction
    | ProposeAction
    | ProveAction
    | SearchAction
    | ConcludeAction,
    Field(discriminator="kind"),
]
ACTION: TypeAdapter[Action] = TypeAdapter(Action)
ACTIONS: tuple[type[_Action], ...] = get_args(get_args(Action)[0])
"""All action types, in the order in which they are explained to a model."""
LOOKING = ("read", "search_code", "consult", "recall", "hypothesise")
"""Kinds that start no engine: they cost no launch, and several may follow each other in one answer."""
