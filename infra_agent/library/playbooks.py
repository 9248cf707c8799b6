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
from infra_agent.goal.model import Metric

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


class Playbook(_Model):
    """One symptom's diagnostic path."""

    name: str
    symptom: str
    rank: int = Field(description="lower is tried first among those that match")
    metrics: tuple[Metric, ...] = Field(default=(), description="goals it serves; empty means all")
    when: tuple[Predicate, ...] = ()
    levers: tuple[Lever, ...] = Field(min_length=1)
    text: str = ""

    def matches(self, metric: Metric, signals: Signals) -> bool:
        """Whether the goal's metric and all predicates fit."""
        serves = not self.metrics or metric in self.metrics
        return serves and all(predicate.holds(signals) for predicate in self.when)


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


def _near(field: str) -> str:
    known = [*Playbook.model_fields, *Lever.model_fields, *Predicate.model_fields]
    close = difflib.get_close_matches(field.rsplit(".", 1)[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else ""
