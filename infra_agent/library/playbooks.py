"""Reads playbooks: a symptom as typed predicates over signals, and the levers to try, in order.

A playbook is a Markdown file with TOML front matter between `+++` lines; the prose below is for people.
Predicates compare one signal with one value; nothing in a file is evaluated as code.

Covered: loading, checking, matching. Not covered: deciding what to do with a match (that is the brain's work).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infra_agent.errors import ConfigError
from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import AnyMetric, Metric

Signals = Mapping[str, float | str | bool]
FENCE = "+++"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Predicate(_Model):
    """One condition on one signal. A signal that was not measured makes every predicate false."""

    signal: str
    equals: bool | str | None = None
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_test(self) -> Predicate:
        if self.equals is None and self.at_least is None and self.at_most is None:
            raise ValueError(f"signal {self.signal!r} needs equals, at_least or at_most")
        return self

    def holds(self, signals: Signals) -> bool:
        """Whether the measured signals satisfy it."""
        value = signals.get(self.signal)
        if value is None:
            return False
        if self.equals is not None and value != self.equals:
            return False
        if self.at_least is None and self.at_most is None:
            return True
        if isinstance(value, str | bool):
            return False
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


class Lever(_Model):
    """A family of parameters to try, and why. `low`, `high`: expected ratio of the goal metric, above 1 is better."""

    family: str
    cause: str = Field(min_length=1, max_length=500)
    place: str = Field(min_length=1, max_length=200)
    refuted_by: str = Field(min_length=1, max_length=300)
    low: float = Field(gt=0)
    high: float = Field(gt=0)


class Transform(_Model):
    """A transform of the library or the stack, `skills/NAME/transform.py`, that reads the sources and proposes diffs.

    What it proposes says its own cause and prediction; these stand where it does not.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,47}$")
    family: str = Field(default="code", max_length=64)
    cause: str = Field(max_length=500)
    place: str = Field(max_length=200)
    refuted_by: str = Field(max_length=300)
    low: float = Field(gt=0)
    high: float = Field(gt=0)


class Playbook(_Model):
    """One symptom's diagnostic path."""

    name: str
    symptom: str
    rank: int = Field(description="lower is tried first among those that match")
    metrics: tuple[Metric, ...] = Field(default=(), description="goals it serves; empty means all")
    when: tuple[Predicate, ...] = ()
    declared: tuple[str, ...] = Field(default=(), description="metrics of stacks that it serves, by their names")
    probes: tuple[str, ...] = Field(default=(), description="local probes whose signals `when` reads, in order")
    levers: tuple[Lever, ...] = ()
    transforms: tuple[Transform, ...] = Field(default=(), description="what proposes code, after the levers")
    text: str = ""

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Playbook:
        if not self.levers and not self.transforms:
            raise ValueError("a playbook names levers, transforms, or both")
        return self

    def serves(self, metric: AnyMetric) -> bool:
        """Whether it is made for this metric. A page that names none serves whatever a server is tuned for."""
        if isinstance(metric, DeclaredMetric):
            return metric.name in self.declared or not (self.declared or self.metrics or self.transforms)
        return metric in self.metrics or not (self.metrics or self.declared)

    def matches(self, metric: AnyMetric, signals: Signals) -> bool:
        """Whether the goal's metric and all predicates fit."""
        return self.serves(metric) and all(predicate.holds(signals) for predicate in self.when)


def playbook_dir() -> Path:
    """The playbooks shipped with the program: the repository's folder, or the copy inside the wheel."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package.parent / "playbooks", package / "_data" / "playbooks"):
        if folder.is_dir():
            return folder
    raise ConfigError("the playbooks are missing from this installation", hint="reinstall infra-agent")


def load_playbook(path: Path) -> Playbook:
    """Read one playbook; every fault names file and field."""
    parts = path.read_text(encoding="utf-8").split(FENCE, 2)
    if len(parts) != 3 or parts[0].strip():
        raise ConfigError("a playbook starts with TOML between two +++ lines", where=str(path))
    try:
        front = tomllib.loads(parts[1])
        return Playbook.model_validate({**front, "text": parts[2].strip()})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{field}: {first['msg']}", where=str(path), hint=_near(field)) from error


def load_playbooks(folder: Path | None = None) -> tuple[Playbook, ...]:
    """All playbooks of a folder, in order of rank, then name."""
    loaded = [load_playbook(path) for path in sorted((folder or playbook_dir()).glob("*.md"))]
    return tuple(sorted(loaded, key=lambda playbook: (playbook.rank, playbook.name)))


def all_playbooks(own: Path | None = None) -> tuple[Playbook, ...]:
    """The program's pages and those of a stack, by rank, then name. ConfigError for a name that is given twice."""
    pages = load_playbooks() + (load_playbooks(own) if own is not None else ())
    names = [page.name for page in pages]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"a playbook {twice[0]!r} is there twice", where=str(own), hint="give the stack's own another name"
        )
    return tuple(sorted(pages, key=lambda page: (page.rank, page.name)))


def _near(field: str) -> str:
    known = [*Playbook.model_fields, *Lever.model_fields, *Transform.model_fields, *Predicate.model_fields]
    close = difflib.get_close_matches(field.rsplit(".", 1)[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else ""
