"""Decision files: `approvals/<request id>.<n>.json` in a run's directory, one signed decision each.

Covered: writing one (new, whole, readable by its owner only), and reading all of them as untrusted data.
Not covered: what they are worth (`ledger.decisions`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from infra_agent.errors import ApprovalRefused
from infra_agent.ledger.disk import disk_error, flush, flush_directory, write_all
from infra_agent.review.approval import MAX_FILE_BYTES, DecisionFile, SignedGrant, read_decision
from infra_agent.review.request import ApprovalRequest

FOLDER = "approvals"
REMOVE = "remove the file, and decide again with `infra-agent review`"


def write_decision(run_dir: Path, request: ApprovalRequest, signed: SignedGrant) -> Path:
    """Store a decision beside the run; the file is new, whole and private. UsageError when the disk refuses."""
    folder = run_dir / FOLDER
    content = DecisionFile(grant=signed.grant, signature=signed.signature, request=request.document())
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path, handle = _new_file(folder, request.id)
        try:
            write_all(handle, content.model_dump_json(indent=2).encode() + b"\n")
            flush(handle)
        finally:
            os.close(handle)
        flush_directory(folder)
    except OSError as error:
        raise disk_error(error, folder, run_dir.name) from error
    return path


def _new_file(folder: Path, request_id: str) -> tuple[Path, int]:
    number = 1
    while True:
        path = folder / f"{request_id}.{number}.json"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            number += 1


def read_decisions(run_dir: Path) -> list[tuple[Path, DecisionFile]]:
    """All decision files by name. ApprovalRefused for one that cannot be read as such."""
    folder = run_dir / FOLDER
    if not folder.is_dir():
        return []
    return [(path, read_decision(_content(path), str(path))) for path in sorted(folder.glob("*.json"))]


def _content(path: Path) -> bytes:
    """The bytes of a plain file of a sensible size; a link or a pipe is not opened."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ApprovalRefused(f"decision file: {error.strerror}", where=str(path), hint=REMOVE) from None
    with os.fdopen(handle, "rb") as source:
        found = os.fstat(source.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            raise ApprovalRefused("decision file: not a plain file of a decision's size", where=str(path), hint=REMOVE)
        return source.read()
