"""Sandboxes with a wall taken out, to see whether the self-test notices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from infra_agent.harness.limits import NO_LIMITS
from infra_agent.harness.sandbox import Walls, outer_env, wrap
from infra_agent.harness.selftest import CannotStart, Tried, try_walls

ANY = "*"
FILTER = """#!{python} -IS
import fnmatch, json, os, sys
drops, adds = json.loads({drops!r}), json.loads({adds!r})
words, end = sys.argv[1:], sys.argv.index("--") - 1
before, after = words[:end], words[end:]
for drop in drops:
    index = 0
    while index + len(drop) <= len(before):
        if all(fnmatch.fnmatch(word, want) for want, word in zip(drop, before[index:])):
            del before[index:index + len(drop)]
        else:
            index += 1
os.execv({binary!r}, [{binary!r}, *adds, *before, *after])
"""


def scripted(folder: Path, script: str, like: Walls | None = None) -> Walls:
    """Walls whose bubblewrap is this script."""
    path = folder / "bwrap"
    path.write_text(script)
    path.chmod(0o755)
    return replace(like or Walls(mode="bubblewrap"), binary=str(path))


def without(folder: Path, walls: Walls, drops: Sequence[Sequence[str]], adds: Sequence[str] = ()) -> Walls:
    """The same walls, with these runs of words left out (patterns of file names) and others put first."""
    python = str(Path(sys.executable).resolve())
    script = FILTER.format(python=python, drops=json.dumps(drops), adds=json.dumps(adds), binary=walls.binary)
    return scripted(folder, script, walls)


def broken(walls: Walls) -> dict[str, str]:
    """What got through, by name of the attempt."""
    found: Tried | CannotStart = try_walls(walls, NO_LIMITS)
    assert isinstance(found, Tried), found
    return {check.name: check.seen for check in found.broken}


def run_inside(walls: Walls, scratch: Path, code: str, *argv: str, readable: Sequence[Path] = ()) -> str:
    """What a Python program prints behind the walls."""
    program = [sys.executable, "-I", "-S", "-c", code, *argv]
    command = wrap(program, walls, writable=[scratch], env={"PATH": os.defpath}, cwd=scratch, readable=readable)
    done = subprocess.run(command, env=outer_env(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
