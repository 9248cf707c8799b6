"""The local user's reviewer key: where it lies, and its public half. The private half is read by `review.sign` alone.

Covered: the config directory (INFRA_AGENT_CONFIG in its place), which sandboxes cover, and the public key line.
Not covered: making a key, signing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_config_dir

from infra_agent.errors import UsageError
from infra_agent.stack.publickey import read_key_line

CONFIG_VARIABLE = "INFRA_AGENT_CONFIG"
PRIVATE_FILE = "reviewer.key"
PUBLIC_FILE = "reviewer.pub"


def config_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The user's config directory: $INFRA_AGENT_CONFIG, or the system's place for it. Nothing is created."""
    chosen = (os.environ if environ is None else environ).get(CONFIG_VARIABLE, "")
    return Path(chosen).expanduser().absolute() if chosen else Path(user_config_dir("infra-agent"))


def local_public_key(folder: Path | None = None) -> str:
    """The public key line of this user's reviewer key; empty when there is none yet. UsageError for a damaged one."""
    path = (folder if folder is not None else config_dir()) / PUBLIC_FILE
    try:
        line = path.read_text(encoding="utf-8").strip()
        read_key_line(line)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        hint = "`infra-agent review key` shows the key; remove the file to have it written again"
        raise UsageError(f"the reviewer's public key cannot be used: {error}", where=str(path), hint=hint) from None
    return line
