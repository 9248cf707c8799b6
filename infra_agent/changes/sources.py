"""What may be patched: the stack's source directories and installed packages, each with a name and its place on disk.

Covered: a directory, with or without git; `package:NAME`, found by the stack's own interpreter without importing it and
without running anything that the environment starts by itself.
Not covered: which files of it are taken (`listing`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra_agent.errors import ConfigError
from infra_agent.stack.model import PACKAGE, Stack

_WHERE = "stack.sources"
_TIMEOUT_S = 60.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIND = """
import json, os, site, sys, sysconfig
from importlib.machinery import PathFinder
home = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
config = os.path.join(home, "pyvenv.cfg")
prefixes = [sys.prefix, sys.exec_prefix]
if os.path.isfile(config):
    with open(config) as file:
        lines = [line.replace(" ", "").strip().lower() for line in file]
    prefixes = [home] + (prefixes if "include-system-site-packages=true" in lines else [])
folders = []
for prefix in prefixes:
    paths = sysconfig.get_paths(vars={"base": prefix, "platbase": prefix})
    folders += [paths["purelib"], paths["platlib"], *site.getsitepackages([prefix])]
folders = list(dict.fromkeys(folders))
spec = PathFinder.find_spec(sys.argv[1], folders)
print(json.dumps({"origin": spec and spec.origin, "folders": folders}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One patchable directory. `name` is how patches call it where there are several."""

    name: str
    origin: Path
    kind: Literal["directory", "package"]


def resolve_sources(stack: Stack) -> tuple[Source, ...]:
    """The stack's sources. Raises ConfigError for one that is not there, or is named twice."""
    found: list[Source] = []
    for text in stack.sources:
        package = text.removeprefix(PACKAGE) if text.startswith(PACKAGE) else None
        origin = Path(text).resolve() if package is None else find_package(_python(stack), package)
        if not origin.is_dir():
            raise ConfigError(f"no such source directory: {text}", where=_WHERE)
        name = _free_name(_called(text), [source.name for source in found])
        found.append(Source(name=name, origin=origin, kind="directory" if package is None else "package"))
    if len({source.origin for source in found}) < len(found):
        raise ConfigError("the same directory is named twice", where=_WHERE, hint="name it once")
    return tuple(found)


def source_names(stack: Stack) -> tuple[str, ...]:
    """What the sources are called, without looking whether they are there."""
    names: list[str] = []
    for text in stack.sources:
        names.append(_free_name(_called(text), names))
    return tuple(names)


def _called(text: str) -> str:
    """A package by its name, a directory by its last part."""
    return text.removeprefix(PACKAGE) if text.startswith(PACKAGE) else Path(text).resolve().name or "source"


def find_package(python: str, name: str) -> Path:
    """The directory of an installed package. Raises ConfigError when it is not one that can be patched."""
    if not _NAME.fullmatch(name):
        hint = f"write {PACKAGE}NAME with the name that is imported, e.g. {PACKAGE}vllm"
        raise ConfigError(f"not the name of a package: {name!r}", where=_WHERE, hint=hint)
    # -I -S: neither start-up files of the environment nor import hooks run; only directories are looked at.
    command = [python, "-I", "-S", "-c", _FIND, name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        document = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise ConfigError(f"the stack's interpreter cannot tell where {name} is: {error}", where=python) from error
    origin = Path(document["origin"]) if document["origin"] else None
    if origin is None or origin.name != "__init__.py":
        searched = ", ".join(document["folders"])
        hint = "for a package installed in editable mode, name its source directory instead"
        message = f"{name} is not an installed package with an __init__.py in {searched}"
        raise ConfigError(message, where=_WHERE, hint=hint)
    return origin.parent.resolve()


def _python(stack: Stack) -> str:
    return stack.launch.python or sys.executable


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    numbered = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)
