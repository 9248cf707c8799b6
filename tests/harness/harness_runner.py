"""A harness in a process of its own, to be killed by a test: serves the fake engine until the end."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from harness_help import FakeEngine, fake_plan, fake_stack

from infra_agent.harness.sandbox import hold_walls
from infra_agent.harness.server import serve


def main(mode: str, folder: str, token: str) -> None:
    walls = hold_walls(mode == "none")
    plan = fake_plan(children="fork,setsid,double-fork,nohup", token=token)
    home = Path(folder)
    with serve(plan, FakeEngine(), fake_stack(), walls=walls, scratch=home / "scratch", log_path=home / "log"):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
