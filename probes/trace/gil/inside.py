"""Runs a Python program with an agent thread in it that can beat, and change one thing at a time, when asked.

    python inside.py SOCKET program.py argument …
    python inside.py SOCKET -m module argument …

The agent sleeps in `accept` until a command comes, so it costs nothing between experiments. It needs the standard
library only and runs in the interpreter of the program under test. Commands are JSON lines on the Unix socket:
`{"do": "beat", "seconds": 2}`, `{"do": "switch_interval", "seconds": 0.0005}`, `{"do": "gc", "on": false}`,
`{"do": "contention", "seconds": 2}`, `{"do": "threads"}`.
Covered: heartbeat lateness, pauses of the garbage collector, gilknocker where it is installed.
Not covered: free-threaded builds (there is no GIL to hold), sub-interpreters.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

BEAT_S = 0.001
AGENT = "probe-gil"


def main() -> None:
    """Start the agent, then the program as `__main__`."""
    path, program, *arguments = sys.argv[1:]
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    Path(path).chmod(0o600)
    server.listen(1)
    threading.Thread(target=_serve, args=(server,), name=AGENT, daemon=True).start()
    if program == "-m":
        sys.argv = arguments
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *arguments]
        sys.path[0] = str(Path(program).resolve().parent)
        runpy.run_path(program, run_name="__main__")


def _serve(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            for line in stream:
                try:
                    answer = _do(json.loads(line))
                except Exception as error:  # the program under test goes on whatever is asked
                    answer = {"error": f"{type(error).__name__}: {error}"}
                stream.write(json.dumps(answer) + "\n")
                stream.flush()


def _do(command: dict[str, Any]) -> dict[str, Any]:
    kind = command.get("do")
    if kind == "beat":
        return _beat(float(command["seconds"]))
    if kind == "switch_interval":
        before = sys.getswitchinterval()
        sys.setswitchinterval(float(command["seconds"]))
        return {"before_s": before, "now_s": sys.getswitchinterval()}
    if kind == "gc":
        before_on = gc.isenabled()
        (gc.enable if command["on"] else gc.disable)()
        return {"before": before_on, "now": gc.isenabled()}
    if kind == "contention":
        return _contention(float(command["seconds"]))
    if kind == "threads":
        return {"threads": {str(t.native_id): t.name for t in threading.enumerate()}, "pid": os.getpid()}
    raise ValueError(f"no command {kind!r}")


def _beat(seconds: float) -> dict[str, Any]:
    """How late a thread that shares nothing but the interpreter wakes up, and what the collector did meanwhile."""
    pauses: list[float] = []
    began: list[float] = []

    def note(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            began.append(time.perf_counter())
        elif began:
            pauses.append(time.perf_counter() - began.pop())

    gc.callbacks.append(note)
    late: list[float] = []
    until_s = time.perf_counter() + seconds
    try:
        while (now_s := time.perf_counter()) < until_s:
            time.sleep(BEAT_S)
            late.append(time.perf_counter() - now_s - BEAT_S)
    finally:
        gc.callbacks.remove(note)
    return {"late_s": late, "gc_pauses_s": pauses, "seconds": seconds}


def _contention(seconds: float) -> dict[str, Any]:
    try:
        import gilknocker  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return {"missing": "gilknocker is not installed in the program's environment"}
    knocker = gilknocker.KnockKnock(polling_interval_micros=1000)
    knocker.start()
    time.sleep(seconds)
    metric = float(knocker.contention_metric)
    knocker.stop()
    return {"contention": metric}


if __name__ == "__main__":
    main()
