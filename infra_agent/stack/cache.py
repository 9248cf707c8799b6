"""Where infra-agent keeps what it can build or measure again: environments, weights, file hashes, noise floors.

Covered: the cache and the state directory, and INFRA_AGENT_CACHE and INFRA_AGENT_STATE in their place.
Not covered: runs; they live in the project's `runs/`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_cache_dir, user_state_dir

CACHE_VARIABLE = "INFRA_AGENT_CACHE"
STATE_VARIABLE = "INFRA_AGENT_STATE"


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The cache directory: $INFRA_AGENT_CACHE, or the user's cache. Nothing is created."""
    chosen = (os.environ if environ is None else environ).get(CACHE_VARIABLE, "")
    return Path(chosen).expanduser().absolute() if chosen else Path(user_cache_dir("infra-agent"))


def state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Where measured facts about this machine are kept: $INFRA_AGENT_STATE, or the user's state directory."""
    chosen = (os.environ if environ is None else environ).get(STATE_VARIABLE, "")
    return Path(chosen).expanduser().absolute() if chosen else Path(user_state_dir("infra-agent"))
