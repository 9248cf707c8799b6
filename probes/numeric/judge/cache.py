"""Verdicts kept by the digest of everything that they depend on.

The key covers the candidate's files, the reference, the spec, the interpreter with its packages, the runner and the
judge's own code. Only `pass` and faults of values are kept: a hang or a crash may be the machine's doing.

No numpy here: a verdict that is known must be there at once.

Covered: one JSON file per key, written whole or not at all, believed only if it names its own key.
Not covered: protection from who may write the user's cache directory; a candidate behind walls cannot see it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from probes.base import Json

_PROBES = Path(__file__).parents[2]
_FORM = 1


def key_of(parts: Mapping[str, str]) -> str:
    """SHA-256 over named digests."""
    text = json.dumps({"form": _FORM} | dict(parts), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def judge_digest() -> str:
    """SHA-256 over the code that judges."""
    total = hashlib.sha256()
    for path in sorted((_PROBES / "numeric").rglob("*.py")):
        total.update(f"{path.relative_to(_PROBES)}\0{file_digest(path)}\n".encode())
    return total.hexdigest()


def toolchain_digest(python: str) -> str:
    """SHA-256 over an interpreter and the names, versions and stamps of the packages beside it."""
    program = Path(python)
    real = program.resolve()
    stamp = real.stat()
    total = hashlib.sha256(f"{real}\0{stamp.st_size}\0{stamp.st_mtime_ns}".encode())
    for root in dict.fromkeys((program.absolute().parent.parent, real.parent.parent)):
        for record in sorted(root.glob("lib/python*/site-packages/*.dist-info")):
            total.update(f"{record.name}\0{record.stat().st_mtime_ns}\n".encode())
    return total.hexdigest()


def default_directory(environ: Mapping[str, str]) -> Path:
    """Where verdicts are kept unless told otherwise."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "infra-agent" / "numeric"


class Cache:
    """A directory of verdicts; one that cannot be read or written is as good as empty."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def get(self, key: str) -> dict[str, Json] | None:
        """The document kept under this key."""
        try:
            document = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(document, dict) or document.get("key") != key:
            return None
        found = document.get("observation")
        return found if isinstance(found, dict) else None

    def put(self, key: str, observation: Mapping[str, Json]) -> None:
        """Keep a document."""
        with suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.directory, suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"key": key, "observation": observation}, file)
            Path(name).replace(self._path(key))

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.json"
