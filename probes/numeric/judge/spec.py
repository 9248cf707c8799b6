"""What a function promises, read from a file: its tensors, sizes, precision and limits.

    [[inputs]]
    name = "x"
    shape = ["rows", "columns"]
    dtype = "float32"
    ...

Covered: symbols in shapes (`columns`, `heads*2`, `n+1`), checked and held-out sizes, a claim of precision, fixed
tolerances (tested like any other, never believed), the call's style, its framework and its kernel.
Not covered: outputs whose shape depends on values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from probes.numeric.precision import FORMATS, STORED, is_float

Dimension = int | str
Sizes = Mapping[str, int]
Kind = Literal["normal", "positive", "probability", "gate", "strength", "index", "lengths", "mask"]
_WORD = re.compile(r"(?P<symbol>[A-Za-z_]\w*)(?:(?P<sign>[*+])(?P<number>\d+))?")


class SpecError(ValueError):
    """A spec file says something that cannot be."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Shaped(_Model):
    name: str = Field(pattern=r"^[A-Za-z_]\w*$")
    shape: tuple[Dimension, ...]
    dtype: str = "float32"

    def at(self, sizes: Sizes) -> tuple[int, ...]:
        """The shape for these sizes."""
        return tuple(size_of(dimension, sizes) for dimension in self.shape)


class Tensor(_Shaped):
    """One tensor. `kind` says which values make sense; `below` bounds an index (a number or a symbol)."""

    kind: Kind = "normal"
    below: Dimension | None = None
    scale: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _can_be(self) -> Tensor:
        if self.dtype not in STORED:
            raise ValueError(f"{self.name}: dtype {self.dtype!r} is none of {', '.join(STORED)}")
        whole = self.kind in ("index", "lengths", "mask")
        if whole and is_float(self.dtype):
            raise ValueError(f"{self.name}: kind {self.kind} needs an integer dtype")
        if (self.kind in ("index", "lengths")) != (self.below is not None):
            raise ValueError(f"{self.name}: `below` belongs to the kinds index and lengths, and they need it")
        for dimension in (*self.shape, *(() if self.below is None else (self.below,))):
            symbol_of(dimension)
        return self


class Result(_Shaped):
    """One output. The last `vector_axes` axes form one row that is judged by its own size (default: the last axis).

    `max_ulp`: a promise about every single element.
    """

    vector_axes: int | None = None
    max_ulp: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _can_be(self) -> Result:
        if self.dtype not in STORED:
            raise ValueError(f"{self.name}: dtype {self.dtype!r} is none of {', '.join(STORED)}")
        if self.vector_axes is not None and not 0 <= self.vector_axes <= len(self.shape):
            raise ValueError(f"{self.name}: vector_axes is {self.vector_axes}, the shape has {len(self.shape)} axes")
        return self

    @property
    def row_axes(self) -> int:
        """How many axes form a row; every element of a one-dimensional output is a row of its own."""
        return (1 if len(self.shape) > 1 else 0) if self.vector_axes is None else self.vector_axes


class Tolerance(_Model):
    """A fixed tolerance of the user's. It is tested with broken outputs; a weak one makes the verdict invalid."""

    rtol: float = Field(ge=0)
    atol: float = Field(ge=0)


class Limits(_Model):
    """What a candidate may take. The judge's clock and the judge's eyes decide."""

    load_s: float = Field(default=120.0, gt=0)
    call_s: float = Field(default=20.0, gt=0)
    total_s: float = Field(default=300.0, gt=0)
    memory_bytes: int = Field(default=4 << 30, ge=1 << 26)


class Call(_Model):
    """How the candidate is called. `out`: results are written into arrays given behind the inputs.

    `kernel`: a name in the candidate's module that must really do the work. `files`: what it needs beside itself.
    `env`: variables it needs; changing them itself counts as tampering.
    """

    style: Literal["return", "out"] = "return"
    framework: Literal["numpy", "torch"] = "numpy"
    device: str = "cpu"
    kernel: str | None = None
    files: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict)


class Spec(_Model):
    """The whole promise. `sizes` are checked openly; `held_out` are ranges from which the judge draws in secret.

    `fixed_sizes` says that no other sizes exist; without it and without ranges a `pass` cannot be given.
    """

    name: str
    inputs: tuple[Tensor, ...] = Field(min_length=1)
    outputs: tuple[Result, ...] = Field(min_length=1)
    sizes: tuple[dict[str, Annotated[int, Field(ge=0)]], ...] = Field(min_length=1)
    held_out: dict[str, tuple[int, int]] = Field(default_factory=dict)
    fixed_sizes: bool = False
    constants: dict[str, float | int | str | bool] = Field(default_factory=dict)
    claim: str | None = None
    reduction: tuple[Dimension, ...] = ()
    history: str | None = None
    skip_regimes: tuple[str, ...] = ()
    tolerance: Tolerance | None = None
    call: Call = Call()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _can_be(self) -> Spec:
        if self.claim is not None and self.claim not in FORMATS:
            raise ValueError(f"claim {self.claim!r} is none of {', '.join(FORMATS)}")
        names = [tensor.name for tensor in (*self.inputs, *self.outputs)]
        if len(names) != len(set(names)):
            raise ValueError("two tensors have the same name")
        needed = set(self.symbols)
        for sizes in self.sizes:
            if needed - sizes.keys():
                raise ValueError(f"sizes {sizes} lack {', '.join(sorted(needed - sizes.keys()))}")
        for name, (low, high) in self.held_out.items():
            if name not in self.sizes[0] or not 0 <= low <= high:
                raise ValueError(f"held_out.{name} must name a size and hold two numbers in order")
        if self.history is not None and self.history not in needed:
            raise ValueError(f"history {self.history!r} is no symbol of a shape")
        return self

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol that some shape uses."""
        words = [word for tensor in (*self.inputs, *self.outputs) for word in tensor.shape]
        words += [tensor.below for tensor in self.inputs if tensor.below is not None]
        found = (symbol_of(word) for word in (*words, *self.reduction))
        return tuple(dict.fromkeys(symbol for symbol in found if symbol))

    @property
    def precision(self) -> str:
        """The format whose accuracy the candidate promises: the claim, else the narrowest float of its tensors."""
        if self.claim is not None:
            return self.claim
        floats = [tensor.dtype for tensor in (*self.inputs, *self.outputs) if is_float(tensor.dtype)]
        return min(floats, key=lambda dtype: FORMATS[dtype].digits, default="float64")

    def terms(self, sizes: Sizes) -> int:
        """How many terms the longest sum has: said by `reduction`, else the longest axis of an input."""
        if not self.reduction:
            return max((length for tensor in self.inputs for length in tensor.at(sizes)), default=1)
        product = 1
        for word in self.reduction:
            product *= max(1, size_of(word, sizes))
        return product


def load_spec(path: Path) -> Spec:
    """The spec of a TOML file; SpecError names the key that is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return Spec.model_validate(document)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc'])) or 'spec'}: {each['msg']}" for each in error.errors()]
        raise SpecError(f"{path}: {'; '.join(problems)}") from error


def symbol_of(dimension: Dimension) -> str:
    """The symbol in a dimension; empty for a number. ValueError when it is neither."""
    if isinstance(dimension, int):
        return ""
    match = _WORD.fullmatch(dimension)
    if match is None:
        raise ValueError(f"{dimension!r} is no size: write a number, `n`, `n*2` or `n+1`")
    return match["symbol"]


def size_of(dimension: Dimension, sizes: Sizes) -> int:
    """A dimension for these sizes."""
    if isinstance(dimension, int):
        return dimension
    match = _WORD.fullmatch(dimension)
    if match is None or match["symbol"] not in sizes:
        raise SpecError(f"no size for {dimension!r}")
    value, number = sizes[match["symbol"]], int(match["number"] or 0)
    return value * number if match["sign"] == "*" else value + number
