"""Reads a script: the actions of the script brain, as `[[action]]` tables of a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import ValidationError

from infra_agent.agent.actions import ACTION, Action
from infra_agent.errors import ConfigError


def load_script(path: Path) -> tuple[Action, ...]:
    """Read `[[action]]` tables from a TOML file; every fault names the action's number and field."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError("the script does not exist", where=str(path), hint="--script FILE.toml") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from error
    actions = []
    for number, entry in enumerate(document.get("action", []), start=1):
        try:
            actions.append(ACTION.validate_python(entry))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"action {number}: {field}: {first['msg']}", where=str(path)) from error
    return tuple(actions)
