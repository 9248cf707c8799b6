"""What a run or a probe of the stack writes, checked before anything is believed to be a figure.

The document comes from the candidate's side of the wall: it is evidence, and the harness says so wherever it is shown.
Covered: types, units, finite numbers, sizes, contradictions between a failed check and a figure beside it.
Not covered: whether the program measured what it says (the measuring files cannot be patched; `changes.scope`).
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infra_agent.errors import StackError
from infra_agent.goal.declared import METRIC_NAME
from probes import base

LARGEST_BYTES = 4 << 20
OWN_QUANTITIES = frozenset({"memory_bytes", "startup_s", "stalls", "stall_s", "mean_output_tokens"})
OWN_PREFIX, OWN_SUFFIX = "stall_free_", "_reported"
OWN_SIGNALS = frozenset({"neighbour_cores", "neighbours", "throttled", "engaged", "cpu_cores_busy"})
"""What the harness measures or decides itself: a program that says it for the harness is not believed."""
Document = TypeVar("Document", bound=BaseModel)
Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=400)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class QuantityDocument(_Model):
    """A figure: `value`, or `samples` of which the median is the value. `low` and `high` are an interval of it."""

    name: str = Field(pattern=METRIC_NAME)
    unit: str = Field(min_length=1, max_length=16)
    value: Finite | None = None
    low: Finite | None = None
    high: Finite | None = None
    samples: tuple[Finite, ...] = Field(default=(), max_length=100_000)

    @model_validator(mode="after")
    def _not_ours(self) -> QuantityDocument:
        if self.name in OWN_QUANTITIES or self.name.startswith(OWN_PREFIX) or self.name.endswith(OWN_SUFFIX):
            raise ValueError(f"{self.name} is a figure that the harness takes itself")
        return self

    @model_validator(mode="after")
    def _one_value(self) -> QuantityDocument:
        if (self.value is None) == (not self.samples):
            raise ValueError(f"{self.name} needs a value or samples, and not both")
        ends = [end for end in (self.low, self.quantity().value, self.high) if end is not None]
        if ends != sorted(ends):
            raise ValueError(f"{self.name} does not lie in its own interval")
        return self

    def quantity(self) -> base.Quantity:
        """As probes have it."""
        value = self.value if self.value is not None else statistics.median(self.samples)
        return base.Quantity(
            name=self.name, value=value, unit=self.unit, low=self.low, high=self.high, n=max(1, len(self.samples))
        )


class CheckDocument(_Model):
    """A check of the run's own outputs. One that fails withholds every figure of the run."""

    name: Text
    ok: bool
    measured: Text
    limit: Text

    def check(self) -> base.Check:
        """As probes have it."""
        return base.Check(name=self.name, ok=self.ok, measured=self.measured, limit=self.limit)


class WhereDocument(_Model):
    """The place that an observation is tied to."""

    parameter: Text | None = None
    file: Text | None = None
    line: int | None = Field(default=None, ge=1)
    kernel: Text | None = None
    input: Text | None = None
    thread: Text | None = None
    interval_s: tuple[Finite, Finite] | None = None


class _Measured(_Model):
    version: Literal[1]
    quantities: tuple[QuantityDocument, ...] = Field(default=(), max_length=500)
    checks: tuple[CheckDocument, ...] = Field(default=(), max_length=100)
    signals: dict[Text, bool | Finite | Text] = Field(default_factory=dict, max_length=500)
    detail: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_are_unique(self) -> _Measured:
        names = [quantity.name for quantity in self.quantities]
        if len(names) != len(set(names)):
            raise ValueError("a quantity is given twice")
        ours = sorted(OWN_SIGNALS & self.signals.keys())
        if ours:
            raise ValueError(f"{ours[0]} is a signal of the harness itself")
        return self


class ResultDocument(_Measured):
    """What one run of an experiment writes. `sources`: SHA-256 of the source files that it was built from, by path."""

    sources: dict[Text, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(default_factory=dict, max_length=1000)


class ObservationDocument(_Measured):
    """What a probe of the stack's own writes: one observation. Verdicts are the program's word."""

    verdict: Literal["pass", "fail", "inconclusive"]
    summary: str = Field(min_length=1, max_length=400)
    where: WhereDocument = WhereDocument()


class ProbeDocument(_Model):
    """Several observations of one probe run."""

    version: Literal[1]
    observations: tuple[ObservationDocument, ...] = Field(min_length=1, max_length=50)


class BadDocument(StackError):
    """The program wrote no document, or one that cannot be believed."""


def read_document(path: Path, model: type[Document]) -> Document:
    """The document of this kind. Raises BadDocument that names the field."""
    try:
        if path.is_symlink() or not path.is_file():
            raise BadDocument("the program wrote no result", where=path.name, hint="it is written to {result}")
        if path.stat().st_size > LARGEST_BYTES:
            size = path.stat().st_size
            raise BadDocument(f"the result has {size} bytes; at most {LARGEST_BYTES} are read", where=path.name)
        return model.model_validate(json.loads(path.read_bytes(), parse_constant=_no_constant))
    except OSError as error:
        raise BadDocument(f"the result cannot be read: {error.strerror or error}", where=path.name) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = f"the result is not valid: {first['msg']}"
        raise BadDocument(message, where=f"{path.name}: {place}", hint="see docs/experiments.md") from None
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"the result is not JSON: {error}", where=path.name) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
