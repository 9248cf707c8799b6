"""Asks an engine for its version, as it is installed in the stack's own environment."""

from __future__ import annotations

import subprocess

from infra_agent.stack.engines.base import Engine
from infra_agent.stack.model import Stack

TIMEOUT_S = 60.0


def engine_version(engine: Engine, stack: Stack) -> str:
    """The version, or `unknown` with the reason; never an error, because the launch itself will say more."""
    argv = engine.version_argv(stack)
    if argv is None:
        return "unknown: this engine has none to ask for"
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    lines = done.stdout.strip().splitlines()
    return lines[-1] if done.returncode == 0 and lines else f"unknown: exit {done.returncode}"
