"""Event loops that stall, in real asyncio programs, and the line that blocked them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, time, sys

def read_everything():
    time.sleep({block})

async def handler():
    await asyncio.sleep(0.3)
    read_everything()
    await asyncio.sleep(0.3)

async def main():
    await asyncio.gather(handler(), asyncio.sleep(0.2))

asyncio.run(main())
sys.exit(3)
"""


def run(tmp_path: Path, program: str) -> tuple[int, dict[str, object], str]:
    path, out = tmp_path / "server.py", tmp_path / "stalls.json"
    path.write_text(program)
    command = [sys.executable, "-m", "probes.trace.stalls_run", "--stall", "0.4", "--output", str(out), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(out.read_text()), done.stderr


def test_a_blocking_call_in_a_coroutine_is_named_by_its_line(tmp_path: Path) -> None:
    code, seen, told = run(tmp_path, PROGRAM.format(block=2.0))
    assert code == 3
    assert seen["verdict"] == "fail"
    line = PROGRAM.splitlines().index("    time.sleep({block})") + 1
    assert f"read_everything ({tmp_path / 'server.py'}:{line})" in str(seen["signals"]["blocking_frame"])  # type: ignore[index]
    assert seen["where"]["thread"] == "MainThread"  # type: ignore[index]
    assert "stalls:" in told


def test_a_program_without_a_loop_is_inconclusive(tmp_path: Path) -> None:
    code, seen, _ = run(tmp_path, "print('hello')\n")
    assert code == 0
    assert seen["verdict"] == "inconclusive"


def test_a_loop_in_another_thread_is_watched_too(tmp_path: Path) -> None:
    program = PROGRAM.format(block=2.0).replace("asyncio.run(main())\nsys.exit(3)", "").rstrip()
    program += "\nimport threading\nt = threading.Thread(target=lambda: asyncio.run(main()), name='loop-thread')\n"
    _, seen, _ = run(tmp_path, program + "t.start(); t.join()\n")
    assert seen["verdict"] == "fail"
    assert "read_everything" in str(seen["summary"])
