"""SHA-256 of files, computed once per (path, size, modification time).

Covered: large weights that are named in every run; concurrent programs sharing one memory of hashes.
Not covered: a file that is changed while its size and modification time are put back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of the whole file."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def files_digest(paths: Sequence[Path]) -> str:
    """One SHA-256 over names and contents of files, and of all files below directories; byte code is left out."""
    digest = hashlib.sha256()
    for root in sorted(paths):
        below = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else [root]
        for path in below:
            if "__pycache__" not in path.parts:
                digest.update(f"{path}\0{sha256_file(path)}\0".encode())
    return digest.hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Replace the file in one step; a reader sees the old text or the new one."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(text)
            sink.flush()
            os.fsync(sink.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class HashMemory:
    """Hashes of files seen before, in `<directory>/hashes.json`. A lost or damaged memory costs time, nothing else."""

    directory: Path

    def sha256(self, path: Path) -> str:
        """The file's SHA-256, from memory when size and modification time are as they were."""
        real = path.resolve()
        status = real.stat()
        seen = [status.st_size, status.st_mtime_ns]
        known = self._read()
        entry = known.get(str(real))
        if isinstance(entry, list) and entry[:2] == seen and len(entry) == 3:
            return str(entry[2])
        digest = sha256_file(real)
        self._remember(str(real), [*seen, digest])
        return digest

    @property
    def _file(self) -> Path:
        return self.directory / "hashes.json"

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _remember(self, name: str, entry: list[Any]) -> None:
        # Two programs may write at once: the later one wins, and the other's entry is computed again some day.
        with contextlib.suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(self._read() | {name: entry}))
