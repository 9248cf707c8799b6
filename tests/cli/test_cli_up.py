"""`infra-agent stack up`: people get in, the engine does not get out."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from simulated.stacks import COMMAND, is_up, stack_file

from infra_agent.harness.ports import free_port


@pytest.mark.parametrize("flags", [[], ["--no-sandbox"]], ids=["walls", "no walls"])
def test_the_engine_is_reached_from_this_machine_until_ctrl_c(tmp_path: Path, flags: list[str]) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    port = free_port()
    argv = [*COMMAND, "stack", "up", "--stock", "--port", str(port), "--json", *flags]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving:
        assert serving.stdout is not None
        lines = []
        while (line := serving.stdout.readline()) and line != "}\n":
            lines.append(line)
        found = json.loads("".join([*lines, "}"]))
        assert found["url"] == f"http://127.0.0.1:{port}"
        assert ("relayed" in found["network"]) is not bool(flags)
        assert is_up(found["url"])
        serving.send_signal(signal.SIGINT)
        assert serving.wait(timeout=60) == 0
    assert not is_up(found["url"])


def test_a_taken_port_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        argv = [*COMMAND, "stack", "up", "--stock", "--port", str(taken.getsockname()[1]), "--json"]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 6
    assert json.loads(done.stdout)["error"]["kind"] == "port_in_use"
    assert f"pid {os.getpid()}" in done.stdout
