"""Goal files: TOML of exactly the Goal model.

Covered: unknown keys (with the nearest known one), missing keys, wrong types, infinite numbers; each with file and key.
Not covered: files larger than memory.
"""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from infra_agent.errors import ConfigError
from infra_agent.goal.declared import DeclaredMetric, MetricSpec
from infra_agent.goal.model import Constraints, Goal, Limit, Load, Scope, SpendingCaps, Target

_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): Goal,
    ("metric",): DeclaredMetric,
    ("target",): Target,
    ("load",): Load,
    ("slo",): Limit,
    ("constraints",): Constraints,
    ("constraints", "limits"): Limit,
    ("scope",): Scope,
    ("budget",): SpendingCaps,
}
_UNION = frozenset({"str-enum[Metric]", "DeclaredMetric"})
"""What the checker says of the two kinds of metric: no keys of the file."""


def load_goal(path: Path, declared: Mapping[str, MetricSpec] | None = None) -> Goal:
    """Read a goal file; ConfigError names file and key. `declared`: metrics of the stack, which a file may name."""
    data = _read(path)
    _name_declared(data, declared or {}, path)
    for place, value in _leaves(data, ""):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{value} is not a usable number", where=f"{path}:{place}", hint="write a finite number")
    try:
        return Goal.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        raise _config_error(path, error.errors()) from None


def _name_declared(data: dict[str, Any], declared: Mapping[str, MetricSpec], path: Path) -> None:
    """Put the stack's own metrics in the place of their names; a table that says something else is refused."""
    limits = data.get("constraints", {}).get("limits", []) if isinstance(data.get("constraints"), dict) else []
    for holder in (data, *(limit for limit in limits if isinstance(limit, dict))):
        named = holder.get("metric")
        name = named.get("name") if isinstance(named, dict) else named
        if not isinstance(name, str):
            continue
        known = declared[name].declared(name).model_dump(mode="json") if name in declared else None
        if isinstance(named, dict) and known is not None and {**known, **named} != known:
            hint = "write the metric's name only"
            raise ConfigError(f"the stack declares {name} differently", where=f"{path}:metric", hint=hint)
        if isinstance(named, dict) and known is None and declared:
            raise ConfigError(f"the stack declares no metric {name}", where=f"{path}:metric", hint=_known(declared))
        holder["metric"] = known if known is not None else named


def _known(declared: Mapping[str, MetricSpec]) -> str:
    return f"it declares {', '.join(sorted(declared))}"


def dump_goal(goal: Goal) -> str:
    """The TOML text of a goal; `load_goal` reads it back to an equal Goal."""
    return tomli_w.dumps(goal.model_dump(mode="json", exclude_none=True))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"the goal file cannot be read: {reason}", where=str(path), hint="check the path") from None
    except UnicodeDecodeError:
        raise ConfigError("the goal file is not UTF-8 text", where=str(path), hint="save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"the goal file is not TOML: {error}", where=str(path), hint="see docs/goals.md") from None


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}[{index}]")
    else:
        yield place, value


def _config_error(path: Path, errors: list[ErrorDetails]) -> ConfigError:
    """The first unknown key if there is one (it explains a missing key), else the first error."""
    error = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    loc = tuple(part for part in error["loc"] if part not in _UNION)
    keys = tuple(part for part in loc if isinstance(part, str))
    where = f"{path}:{_place(loc)}" if loc else str(path)
    if error["type"] == "extra_forbidden":
        known = list(_MODELS[keys[:-1]].model_fields) if keys[:-1] in _MODELS else []
        near = difflib.get_close_matches(keys[-1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        return ConfigError(f"unknown key '{keys[-1]}'", where=where, hint=hint)
    if error["type"] == "missing":
        return ConfigError(f"missing key '{keys[-1]}'", where=where, hint="see docs/goals.md for a complete file")
    message = error["msg"].removeprefix("Value error, ")
    return ConfigError(message[:1].lower() + message[1:], where=where, hint="see docs/goals.md")


def _place(loc: tuple[int | str, ...]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")
