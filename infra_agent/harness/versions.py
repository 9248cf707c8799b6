"""Asks an engine for its version, as it is installed in the stack's own environment.

Covered: the stack's interpreter runs behind the walls, in an empty directory, so that nothing that lies about where the
user stands is imported. Not covered: engines that are not launched here.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from infra_agent.harness.command import run_command
from infra_agent.harness.environment import child_env, named_paths
from infra_agent.harness.sandbox import Walls
from infra_agent.stack.engines.base import Engine
from infra_agent.stack.model import Stack

TIMEOUT_S = 60.0


def engine_version(engine: Engine, stack: Stack, walls: Walls) -> str:
    """The version, or `unknown` with the reason; never an error, because the launch itself will say more."""
    argv = engine.version_argv(stack)
    if argv is None:
        return "unknown: this engine has none to ask for"
    with tempfile.TemporaryDirectory(prefix="infra-agent-") as folder:
        scratch = Path(folder).resolve()
        env = child_env(os.environ, stack.launch.env, scratch)
        readable = named_paths(stack)
        found = run_command(
            argv, walls=walls, cwd=scratch, env=env, timeout_s=TIMEOUT_S, writable=[scratch], readable=readable
        )
    said = found.stdout.lines(1)
    if found.ok and said:
        return said[0]
    why = found.stderr.lines(1) or (f"exit {found.exit_code}",)
    return f"unknown: {'no answer in time' if found.timed_out else why[0]}"
