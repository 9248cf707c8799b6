"""Talks to the agent inside a launched program, and beats outside of it as the control.

Covered: commands with a deadline; an agent that is gone. Not covered: attaching an agent to a program that runs
already.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSIDE = Path(__file__).with_name("inside.py")
ANSWER_S = 60.0
_BEAT = """
import json, sys, time
late, until = [], time.perf_counter() + float(sys.argv[1])
while (now := time.perf_counter()) < until:
    time.sleep(0.001)
    late.append(time.perf_counter() - now - 0.001)
json.dump(late, sys.stdout)
"""


class AgentGone(Exception):
    """The agent does not answer: the program ended, or was not launched through `inside.py`."""


def wrapped(python: str, socket_path: Path, program: list[str]) -> list[str]:
    """The command line that runs a Python program with the agent in it."""
    return [python, str(INSIDE), str(socket_path), *program]


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent that listens on a socket."""

    path: Path

    def ask(self, do: str, *, wait_s: float = 0.0, **fields: float | bool) -> dict[str, Any]:
        """One command and its answer. Raises AgentGone."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(ANSWER_S + wait_s)
                connection.connect(str(self.path))
                connection.sendall(json.dumps({"do": do, **fields}).encode() + b"\n")
                with connection.makefile("r") as stream:
                    line = stream.readline()
        except OSError as error:
            raise AgentGone(f"the agent in the program does not answer: {error.strerror or error}") from error
        if not line:
            raise AgentGone("the program ended while the agent was asked")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise AgentGone(f"the agent says: {answer['error']}")
        return answer

    def beat(self, seconds: float) -> dict[str, Any]:
        """Lateness of a thread inside the program."""
        return self.ask("beat", wait_s=seconds, seconds=seconds)

    def threads(self) -> dict[int, str]:
        """Names of the Python threads by their number in the kernel."""
        return {int(number): name for number, name in self.ask("threads")["threads"].items()}


def outside_beat(seconds: float) -> subprocess.Popen[str]:
    """The same heartbeat in a process of its own: it shares the processors, but not the interpreter."""
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", _BEAT, str(seconds)], stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> list[float]:
    """Lateness that an `outside_beat` has seen."""
    try:
        text, _ = process.communicate(timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate(timeout=ANSWER_S)
        raise
    return [float(late) for late in json.loads(text)]
