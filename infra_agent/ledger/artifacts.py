"""Large results beside the ledger: `artifacts/<sha256>`, each file named by the digest of its content.

Covered: storing a file or bytes at once or not at all, finding one, and checking one against its name.
Not covered: which event names an artifact (`verify`).
"""

from __future__ import annotations

import hashlib
import io
import re
import secrets
from pathlib import Path

from infra_agent.errors import LedgerError
from infra_agent.ledger.disk import flush, flush_directory
from infra_agent.redact.masker import NO_SECRETS, Masker
from infra_agent.redact.stream import masked_chunks

FOLDER = "artifacts"
_NAME = re.compile(r"[0-9a-f]{64}")
_PART = ".part-"


def put(run_dir: Path, content: bytes | Path, masker: Masker = NO_SECRETS) -> str:
    """Store a copy without secrets and return its name (sha256). OSError if it cannot be read or written."""
    folder = run_dir / FOLDER
    folder.mkdir(exist_ok=True)
    part = folder / (_PART + secrets.token_hex(8))
    digest = hashlib.sha256()
    try:
        with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source, part.open("xb") as to:
            for chunk in masked_chunks(source, masker):
                digest.update(chunk)
                to.write(chunk)
            to.flush()
            flush(to.fileno())
        part.replace(folder / digest.hexdigest())
        flush_directory(folder)
    finally:
        part.unlink(missing_ok=True)
    return digest.hexdigest()


def path_of(run_dir: Path, name: str) -> Path:
    """The artifact's file; LedgerError if it is missing or the name is not a digest."""
    path = run_dir / FOLDER / name
    if not _NAME.fullmatch(name) or not path.is_file():
        raise LedgerError(f"the run has no artifact {name!r}", where=str(run_dir / FOLDER))
    return path


def fault(run_dir: Path, name: str) -> str | None:
    """What is wrong with a stored artifact, or None."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is not the name of an artifact"
    path = run_dir / FOLDER / name
    if path.is_symlink() or not path.is_file():
        return f"artifact {name} is missing"
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"artifact {name} cannot be read: {error.strerror}"
    return None if found == name else f"artifact {name} was changed: its content has the digest {found}"


def remove_leftovers(run_dir: Path) -> None:
    """Delete half-written files of a killed writer. Only for the holder of the run's lock."""
    for part in (run_dir / FOLDER).glob(_PART + "*"):
        part.unlink(missing_ok=True)
