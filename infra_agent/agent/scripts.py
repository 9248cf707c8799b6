"""Reads a script: the actions of the script brain, as `[[action]]` tables of a TOML file."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra_agent.agent.actions import ACTION, Action
from infra_agent.errors import ConfigError

TABLE = "action"


def load_script(path: Path) -> tuple[Action, ...]:
    """Read `[[action]]` tables from a TOML file; every fault names the action's number and field."""
    actions = []
    for number, entry in enumerate(_entries(_document(path), path), start=1):
        try:
            actions.append(ACTION.validate_python(entry))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"action {number}: {field}: {first['msg']}", where=str(path)) from error
    return tuple(actions)


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError("the script does not exist", where=str(path), hint="--script FILE.toml") from error
    except OSError as error:
        cause = f"the script cannot be read: {error.strerror or error}"
        raise ConfigError(cause, where=str(path), hint="--script FILE.toml") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from error


def _entries(document: dict[str, Any], path: Path) -> list[Any]:
    """The tables under `action`, at least one; a key beside them would be silently without effect."""
    for key in document:
        if key != TABLE:
            near = difflib.get_close_matches(key, [TABLE], n=1)
            hint = f"did you mean [[{TABLE}]]?" if near else f"a script holds [[{TABLE}]] tables only"
            raise ConfigError(f"unknown key {key!r}", where=str(path), hint=hint)
    entries = document.get(TABLE, [])
    if not isinstance(entries, list):
        raise ConfigError(f"{TABLE} is not a list of tables", where=str(path), hint=f"write each as [[{TABLE}]]")
    if not entries:
        raise ConfigError("the script holds no action", where=str(path), hint=f"write each as [[{TABLE}]]")
    return entries
