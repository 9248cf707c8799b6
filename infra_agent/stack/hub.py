"""Where a model name from the Hugging Face hub lies on this machine.

Covered: `owner/name` and `owner/name@revision` in the local hub cache.
Not covered: fetching; stacks are started offline.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+(@[\w./-]+)?$")


def looks_like_hub_id(model: str) -> bool:
    """Whether this is written like `owner/name`, not like a path."""
    return bool(_HUB_ID.match(model)) and not model.startswith((".", "~"))


def cached_snapshot(model: str, env: Mapping[str, str]) -> Path | None:
    """Directory of the cached snapshot, or None. `env` (the stack's variables) wins over this process's."""
    name, _, revision = model.partition("@")
    repository = _hub_cache({**os.environ, **env}) / ("models--" + name.replace("/", "--"))
    reference = repository / "refs" / (revision or "main")
    try:
        commit = reference.read_text(encoding="utf-8").strip()
    except OSError:
        commit = revision
    snapshot = repository / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def _hub_cache(env: Mapping[str, str]) -> Path:
    if env.get("HF_HUB_CACHE"):
        return Path(env["HF_HUB_CACHE"]).expanduser()
    if env.get("HF_HOME"):
        return Path(env["HF_HOME"]).expanduser() / "hub"
    base = Path(env["XDG_CACHE_HOME"]) if env.get("XDG_CACHE_HOME") else Path.home() / ".cache"
    return base / "huggingface" / "hub"
