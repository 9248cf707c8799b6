"""Where infra-agent keeps what it can build again: environments, weights, file hashes.

Covered: the directory, and INFRA_AGENT_CACHE in its place.
Not covered: runs; they live in the project's `runs/`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_cache_dir

CACHE_VARIABLE = "INFRA_AGENT_CACHE"


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The cache directory: $INFRA_AGENT_CACHE, or the user's cache. Nothing is created."""
    chosen = (os.environ if environ is None else environ).get(CACHE_VARIABLE, "")
    return Path(chosen).expanduser().absolute() if chosen else Path(user_cache_dir("infra-agent"))
