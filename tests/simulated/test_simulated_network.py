"""Nothing leaves the machine: a run opens no connection but to its own loopback, and needs no network at all."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulated.stacks import COMMAND, GOAL, stack_file

from infra_agent.harness.sandbox import find_bwrap

pytestmark = [pytest.mark.requirement("S1"), pytest.mark.timeout(600)]
WATCH = """
import json, os, sys
_fd = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def _hook(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        seen = args[1] if event in ("socket.connect", "socket.sendto") else args[0]
        os.write(_fd, (json.dumps([event, repr(seen) if isinstance(seen, bytes) else seen]) + "\\n").encode())
sys.addaudithook(_hook)
"""


def run_command(folder: Path, *before: str, env: dict[str, str], more: tuple[str, ...] = ()) -> str:
    command = [*before, *COMMAND, "run", "--stack", str(folder / "infra-agent.toml"), "--goal", GOAL, "--seed", "3"]
    done = subprocess.run(
        [*command, "--budget", "60s", *more], cwd=folder, env={**os.environ, **env}, capture_output=True, text=True,
        timeout=500, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode in (0, 1, 4, 6), done.stderr
    return done.stderr


def is_loopback(host: object) -> bool:
    if not isinstance(host, str):
        return host is None
    return host in ("localhost", "") or ipaddress.ip_address(host).is_loopback


def test_every_connection_of_a_run_stays_on_this_machine(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    seen = tmp_path / "seen.jsonl"
    paths = os.pathsep.join([str(watch), *filter(None, [os.environ.get("PYTHONPATH")])])
    run_command(tmp_path, env={"PYTHONPATH": paths, "WATCHED": str(seen)})
    lines = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len(lines) > 20
    for event, address in lines:
        unix = isinstance(address, str) and event == "socket.connect"
        host = address[0] if isinstance(address, list) else address
        assert unix or is_loopback(host), (event, address)


def test_the_watch_sees_connections_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    seen = tmp_path / "seen.jsonl"
    code = "import socket; s = socket.socket(); s.setblocking(False); s.connect_ex(('192.0.2.1', 9))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "WATCHED": str(seen)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)
    assert json.loads(seen.read_text()) == ["socket.connect", ["192.0.2.1", 9]]


def test_a_run_goes_to_its_end_in_a_network_of_its_own_that_leads_nowhere(tmp_path: Path) -> None:
    binary = find_bwrap()
    assert binary is not None
    stack_file(tmp_path, {"continuous_batching": [True]})
    alone = [str(binary), "--dev-bind", "/", "/", "--unshare-net", "--die-with-parent", "--"]
    closed = subprocess.run(
        [*alone, sys.executable, "-c", "import socket; socket.create_connection(('192.0.2.1', 9), 5)"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "Network is unreachable" in closed.stderr
    said = run_command(tmp_path, *alone, env={}, more=("--no-sandbox",))
    assert "Stack" in said
    assert (next((tmp_path / "runs").iterdir()) / "report.html").is_file()
