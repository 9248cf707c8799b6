"""Asks an engine for its version, as it is installed in the stack's own environment, behind the same walls."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from infra_agent.harness.environment import child_env, named_paths
from infra_agent.harness.sandbox import Walls, outer_env, wrap
from infra_agent.stack.engines.base import Engine
from infra_agent.stack.model import Stack

TIMEOUT_S = 60.0


def engine_version(engine: Engine, stack: Stack, walls: Walls) -> str:
    """The version, or `unknown` with the reason; never an error, because the launch itself will say more."""
    argv = engine.version_argv(stack)
    if argv is None:
        return "unknown: the engine is not launched here"
    with tempfile.TemporaryDirectory(prefix="infra-agent-") as name:
        scratch = Path(name).resolve()
        env = child_env(os.environ, stack.launch.env, scratch)
        inner = wrap(argv, walls, writable=[scratch], env=env, cwd=scratch, readable=named_paths(stack))
        outer = env if walls.mode == "none" else outer_env()
        try:
            done = subprocess.run(
                inner, env=outer, cwd=scratch, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"unknown: {error}"
    lines = done.stdout.strip().splitlines()
    return lines[-1] if done.returncode == 0 and lines else f"unknown: exit {done.returncode}"
