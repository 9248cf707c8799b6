"""Stack files over the simulated engine, and runs of the real command line on them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra_agent.harness.ports import free_port

ENGINE = Path(__file__).with_name("engine.py")
COMMAND = [sys.executable, "-m", "infra_agent"]
GOAL = "at 4 concurrent requests, double the output tokens per second within 10 minutes"


def interpreter(folder: Path) -> Path:
    """An executable that starts the simulated engine whatever module it is asked for."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {ENGINE} "$@"\n')
    path.chmod(0o755)
    return path


def stack_file(
    folder: Path, space: dict[str, list[Any]] | None, env: dict[str, str] | None = None,
    sources: Sequence[Path] = (), neighbours: str = "record", **workload: Any,
) -> Path:  # fmt: skip
    """An infra-agent.toml in a folder. `space` None: the file has no such table.

    Tests run beside each other, so neighbours void nothing unless a test asks for it.
    """
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text("{}")
    settings = {"requests": 12, "max_tokens": 8, "warmup_requests": 1, **workload}
    lines = [
        "[stack]", 'name = "simulated"', 'engine = "transformers"', f'model = "{model}"',
        f"sources = {json.dumps([sys.prefix, sys.base_prefix, str(ENGINE.parent), *map(str, sources)])}",
        "[launch]", f'python = "{interpreter(folder)}"',
        "[launch.env]", *(f'{name} = "{value}"' for name, value in (env or {}).items()),
        *([] if space is None else ["[space]"]),
        *(f"{name} = {json.dumps(values)}" for name, values in (space or {}).items()),
        "[workload]", *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
        "[reference]", 'oracle = "none"', "max_tokens = 8",
        "[limits]", "start_timeout_s = 20", f'neighbours = "{neighbours}"',
    ]  # fmt: skip
    path = folder / "infra-agent.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def attached_stack_file(folder: Path, url: str, engine: str = "openai") -> Path:
    """An infra-agent.toml for a server that runs already."""
    lines = [
        "[stack]", 'name = "attached"', f'engine = "{engine}"', 'model = "m"', f'url = "{url}"',
        "[workload]", "requests = 12", "max_tokens = 8", "warmup_requests = 1",
        "[reference]", 'oracle = "none"', "max_tokens = 8",
        "[limits]", "start_timeout_s = 10",
    ]  # fmt: skip
    path = folder / "infra-agent.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """The simulated engine, started by somebody else; yields its URL and takes it down at the end."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(interpreter(folder)), "-m", "transformers.cli.transformers", "serve", "m", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not is_up(url):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def is_up(url: str) -> bool:
    """Whether the server answers its health check."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def run(folder: Path, *args: str, timeout_s: float = 240, **env: str) -> subprocess.CompletedProcess[str]:
    """The real command line in a folder."""
    return subprocess.run(
        [*COMMAND, *args], cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def tune(folder: Path, *args: str, goal: str = GOAL, **env: str) -> subprocess.CompletedProcess[str]:
    """`infra-agent run` on the folder's stack file."""
    stack = str(folder / "infra-agent.toml")
    return run(folder, "run", "--stack", stack, "--goal", goal, "--seed", "3", *args, **env)


def report_of(folder: Path) -> dict[str, Any]:
    """The report of the newest run, from its file."""
    newest = max((folder / "runs").iterdir())
    document: dict[str, Any] = json.loads((newest / "report.json").read_text())
    return document


def events_of(folder: Path) -> list[dict[str, Any]]:
    """The newest run's events."""
    newest = max((folder / "runs").iterdir())
    return [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]


def kill_when(
    folder: Path, args: list[str], kind: str, count: int, signum: int = signal.SIGKILL, *,
    command: Sequence[str] = COMMAND, env: Mapping[str, str] | None = None,
) -> int:  # fmt: skip
    """Start a command, send it a signal once the ledger holds `count` events of a kind; its return code."""
    process = subprocess.Popen(
        [*command, *args], cwd=folder, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    try:
        while time.monotonic() < deadline and process.poll() is None:
            if _count(folder, kind) >= count:
                process.send_signal(signum)
                return process.wait(timeout=60)
            time.sleep(0.02)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    raise AssertionError(f"the command ended ({process.returncode}) before {count} events of kind {kind}")


def _count(folder: Path, kind: str) -> int:
    runs = sorted((folder / "runs").glob("*/events.jsonl"))
    return runs[-1].read_text().count(f'"kind":"{kind}"') if runs else 0
