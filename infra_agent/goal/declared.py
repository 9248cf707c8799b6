"""Metrics that a stack declares itself: what an experiment measures that no server has.

Covered: unit, direction, what it means, whether equal runs give equal figures, the words that goals use for it.
Not covered: measuring it (`harness.experiment`); reading it from a goal's text (`declared_text`).
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

METRIC_NAME = r"^[a-z][a-z0-9_]{0,47}$"
VALUE = "{value}"
_PHRASE = re.compile(r"[^\W\d_][\w' -]{1,60}")


class DeclaredMetric(BaseModel):
    """A declared metric as a goal carries it: all that judging and showing it needs.

    `judged`: which end of a quantity's interval is the figure ("high": a growth whose interval must lie below a limit).
    `resolution`: figures are not told apart below it, so that a ratio to a figure near zero, or to a negative one, is
    defined. `kind`: two runs of a `deterministic` metric on one seed agree exactly, or it is treated as measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=METRIC_NAME)
    unit: str = Field(min_length=1, max_length=16)
    direction: Literal["minimise", "maximise"]
    kind: Literal["measured", "deterministic"] = "measured"
    meaning: str = Field(min_length=1, max_length=200)
    judged: Literal["value", "low", "high"] = "value"
    resolution: float = Field(default=1e-12, gt=0, allow_inf_nan=False)

    @property
    def value(self) -> str:
        """Its name, as `Metric.value` is one."""
        return self.name

    @property
    def label(self) -> str:
        """Its name in words."""
        return self.name.replace("_", " ")

    def level(self, figure: float) -> str:
        """A figure with its unit."""
        return f"{figure:.4g}" + ("" if self.unit == "1" else f" {self.unit}")


class Sentence(BaseModel):
    """A whole sentence that states a target. `{value}` in it is a number in the metric's unit; without one the target
    is `at_most` or `at_least`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    says: str = Field(min_length=8, max_length=200)
    at_most: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    at_least: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_level(self) -> Sentence:
        told = self.at_most is not None, self.at_least is not None
        if self.says.count(VALUE) + sum(told) != 1:
            raise ValueError("a sentence holds {value} once, or comes with at_most or at_least")
        return self


class MetricSpec(BaseModel):
    """`[metrics.NAME]` of a stack file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    unit: str = Field(min_length=1, max_length=16)
    direction: Literal["minimise", "maximise"]
    kind: Literal["measured", "deterministic"] = "measured"
    meaning: str = Field(min_length=1, max_length=200)
    judged: Literal["value", "low", "high"] = "value"
    resolution: float = Field(default=1e-12, gt=0, allow_inf_nan=False)
    names: tuple[str, ...] = Field(default=(), description="what goals call it, beside its own name")
    sentences: tuple[Sentence, ...] = ()

    @field_validator("names")
    @classmethod
    def _readable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _PHRASE.fullmatch(name):
                raise ValueError(f"{name!r} is no phrase of words")
        return value

    @model_validator(mode="after")
    def _fits(self) -> MetricSpec:
        wrong = "at_least" if self.direction == "minimise" else "at_most"
        if any(getattr(sentence, wrong) is not None for sentence in self.sentences):
            raise ValueError(f"a metric that is {self.direction}d has no sentence with {wrong}")
        return self

    def declared(self, name: str) -> DeclaredMetric:
        """The metric under its name."""
        return DeclaredMetric(name=name, **self.model_dump(exclude={"names", "sentences"}))

    def spoken(self, name: str) -> tuple[str, ...]:
        """All phrases that mean it, longest first."""
        phrases = {name, name.replace("_", " "), *self.names}
        return tuple(sorted(phrases, key=lambda phrase: (-len(phrase), phrase)))
