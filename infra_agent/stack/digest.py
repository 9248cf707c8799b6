"""Identity of a stack: its definition, its weights and whatever else decides what is measured, as one SHA-256.

Covered: every file of a model directory or of a cached hub snapshot, each hashed in full (and remembered).
Not covered: a server attached to by URL; its name is all that is known of its weights. Who approves changes (`review`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rfc8785

from infra_agent.errors import ConfigError
from infra_agent.stack.cache import cache_dir
from infra_agent.stack.hashing import HashMemory
from infra_agent.stack.hub import cached_snapshot, looks_like_hub_id
from infra_agent.stack.model import Stack


def stack_digest(stack: Stack, extra: Mapping[str, Any], cache: Path | None = None) -> str:
    """SHA-256 over the canonical JSON of stack, weights and `extra` (JSON values, e.g. the workload's digest).

    Equal digests mean equal definitions and equal bytes of weights. Raises ConfigError when weights cannot be read.
    """
    document = {
        "stack": stack.model_dump(mode="json", exclude={"review", *_unset(stack)}),
        "weights": weights_identity(stack, cache),
        "extra": dict(extra),
    }
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()


def _unset(stack: Stack) -> set[str]:
    """Tables of experiments that a stack does not use: it is the same stack as before they existed."""
    plain = Stack(name=stack.name, engine=stack.engine)
    names = ("metrics", "experiment", "probes", "playbooks", "skills")
    return {name for name in names if getattr(stack, name) == getattr(plain, name)}


def weights_identity(stack: Stack, cache: Path | None = None) -> dict[str, Any]:
    """Name → size and SHA-256 of every file of the model; for a server attached to by URL, its name."""
    directory = None if stack.url is not None else _directory(stack)
    if directory is None:
        return {"name": stack.served_model or stack.model}
    memory = HashMemory(cache if cache is not None else cache_dir())
    try:
        files = [directory] if directory.is_file() else sorted(p for p in directory.rglob("*") if p.is_file())
        return {
            "files": {
                str(path.relative_to(directory)): {"size": path.stat().st_size, "sha256": memory.sha256(path)}
                for path in files
            }
        }
    except OSError as error:
        raise ConfigError(f"the model's files cannot be read: {error}", where="stack.model") from error


def _directory(stack: Stack) -> Path | None:
    path = Path(stack.model)
    if stack.model and path.exists():
        return path
    return cached_snapshot(stack.model, stack.launch.env) if looks_like_hub_id(stack.model) else None
