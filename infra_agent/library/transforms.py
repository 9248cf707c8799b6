"""Finds a transform by name: `NAME/transform.py` below the stack's own skills, else below those of the program.

Covered: names that leave the folder, a missing file with the known names.
Not covered: running it (`harness.transforms`).
"""

from __future__ import annotations

import re
from pathlib import Path

from infra_agent.errors import ConfigError

FILE = "transform.py"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")


def skill_dir() -> Path | None:
    """The skills shipped with the program; None when there are none."""
    package = Path(__file__).resolve().parent.parent
    return next((d for d in (package.parent / "skills", package / "_data" / "skills") if d.is_dir()), None)


def transform_names(own: str | None) -> tuple[str, ...]:
    """All transforms that can be named, sorted. `own`: the stack's folder."""
    found = {path.parent.name for folder in _folders(own) for path in folder.glob(f"*/{FILE}")}
    return tuple(sorted(name for name in found if _NAME.fullmatch(name)))


def find_transform(name: str, own: str | None) -> Path:
    """The folder of a transform. Raises ConfigError that lists the known ones."""
    if _NAME.fullmatch(name):
        for folder in _folders(own):
            if (folder / name / FILE).is_file():
                return folder / name
    known = ", ".join(transform_names(own)) or "none"
    raise ConfigError(f"no transform {name!r}", where="skills", hint=f"known: {known}")


def _folders(own: str | None) -> list[Path]:
    return [folder for folder in (Path(own) if own is not None else None, skill_dir()) if folder is not None]
