"""The lab's stack file: a server of one's own, started by a command line, its sources open to patches."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

SOURCES = Path(__file__).with_name("src")
GOAL = (
    "at 4 concurrent requests, double the output tokens per second without changing the answers, "
    "code changes allowed, within 60 minutes"
)


def write_lab(folder: Path, python: Path, model: Path) -> Path:
    """Copy the server into a folder and write its infra-agent.toml; returns the file."""
    shutil.copytree(SOURCES, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["{python}", "-m", "slow_server", "--model", "{model}", "--port", "{port}"]
    lines = [
        "[stack]", 'name = "slow-server"', 'engine = "command"', f'model = "{model}"', 'sources = ["./src"]',
        "[launch]", f'python = "{python}"', f"command = {json.dumps(command)}",
        "[launch.env]", 'PYTHONPATH = "{source}"', 'HF_HUB_OFFLINE = "1"',
        "[workload]", 'prompts = "./src/bench/prompts.jsonl"', "requests = 12",
        "max_tokens = 24", "warmup_requests = 1", "concurrency = 4",
        "[reference]", "max_tokens = 24",
        "[limits]", "start_timeout_s = 120",
    ]  # fmt: skip
    path = folder / "infra-agent.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
