"""A harness in a process of its own, to be ended by a test: runs the brood as a command or as an engine's process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from infra_agent.harness.command import run_command
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import hold_walls

HERE = Path(__file__).resolve().parent


def main(how: str, mode: str, folder: str, token: str) -> None:
    walls = hold_walls(mode == "none")
    home = Path(folder)
    scratch = home / "scratch"
    scratch.mkdir()
    argv = [sys.executable, "-I", "-S", str(HERE / "brood.py"), token, "hang"]
    env = {"PATH": os.defpath, "HOME": str(scratch)}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if how == "command":
        run_command(argv, walls=walls, cwd=scratch, env=env, timeout_s=200, writable=[scratch], readable=[HERE])
        return
    process = ManagedProcess.start(
        argv, env=env, cwd=scratch, log_path=home / "log", walls=walls, writable=[scratch], readable=[HERE]
    )
    try:
        time.sleep(200)
    finally:
        process.stop(5)


if __name__ == "__main__":
    main(*sys.argv[1:])
