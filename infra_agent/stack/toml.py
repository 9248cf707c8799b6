"""Reads TOML with the place of every mistake: file and line of a key.

Covered: syntax errors, and the line on which a key of a table was set.
Not covered: lines inside multi-line values and dotted keys; the place is then the table or the file.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from infra_agent.errors import ConfigError

_HEADER = re.compile(r"^\s*\[+\s*([^\[\]#]+?)\s*\]+\s*(#.*)?$")
_KEY = re.compile(r"""^\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*=""")
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)|\(at end of document\)")


def read_text(path: Path) -> str:
    """The file's text. Raises ConfigError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "write one with `infra-agent init`, or use `--stack demo`"
        raise ConfigError(f"no such file: {path}", where=str(path), hint=hint) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8 text: {error.reason}", where=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}", where=str(path)) from None


def parse(text: str, name: str) -> dict[str, Any]:
    """The document as a dict. `name` is the file's name in errors. Raises ConfigError with the line."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause = _AT_LINE.sub("", str(error)).strip()
        raise ConfigError(
            f"{name} is not valid TOML: {cause}", where=f"{name}:{_error_line(str(error), text)}"
        ) from None
    if not document:
        hint = "write one with `infra-agent init`"
        raise ConfigError(f"{name} is empty", where=name, hint=hint)
    return document


def _error_line(message: str, text: str) -> int:
    match = _AT_LINE.search(message)
    if match is not None and match.group(1) is not None:
        return int(match.group(1))
    return max(1, text.rstrip("\n").count("\n") + 1)


def line_of(text: str, table: str, key: str | None = None) -> int | None:
    """Line on which `key` of `table` is set (or the table's header, without a key); None when it cannot be told."""
    current, header_line = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            current = ".".join(part.strip().strip("\"'") for part in header.group(1).split("."))
            if current == table:
                header_line = number
            continue
        match = _KEY.match(line)
        if key is not None and current == table and match is not None and key in match.groups():
            return number
    return header_line


def place(text: str, name: str, table: str, key: str | None = None) -> str:
    """`file:line  table.key`, or without the line where it cannot be told."""
    line = line_of(text, table, key)
    dotted = ".".join(part for part in (table, key) if part)
    return f"{name}:{line}  {dotted}" if line is not None else f"{name}  {dotted}"
