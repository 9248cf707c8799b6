"""The tools under test, each run as its user would run it: a command, a result file, our names for its figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from probes.load.foreign.model import ForeignRun, at, number
from probes.load.foreign.read import read_runs
from scripts.bench_load.cases import Case
from scripts.bench_load.peers import PEERS, Peer, environment_of, python_of

RUN_S = 600
ROOT = Path(__file__).resolve().parents[2]
VLLM = (
    "import argparse; from vllm.benchmarks import serve; p = argparse.ArgumentParser(); serve.add_cli_args(p); "
    "serve.main(p.parse_args())"
)
PIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execv(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where things are: the server, files for this run, prompts in both forms, a tokenizer, the core to run on."""

    url: str
    folder: Path
    prompts: Path
    texts: Path
    tokenizer: Path
    core: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a tool said: figures by our names, its processor time, or why it said nothing."""

    figures: dict[str, float]
    cpu_s: float = 0.0
    trouble: str = ""


class Tool(Protocol):
    """One load tool."""

    label: str

    def command(self, case: Case, setting: Setting, seed: int) -> list[str]:
        """What to run."""

    def figures(self, setting: Setting) -> dict[str, float]:
        """What it wrote."""


def run(tool: Tool, case: Case, setting: Setting, seed: int = 0) -> Reading:
    """Run a tool once; its children's processor time is counted."""
    command = tool.command(case, setting, seed)
    if setting.core is not None:
        command = [sys.executable, "-c", PIN, str(setting.core), *command]
    peer = getattr(tool, "peer", None)
    environment = environment_of(peer) if peer is not None else {**os.environ, "PYTHONPATH": str(ROOT)}
    log = setting.folder / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment,
                                   cwd=setting.folder, start_new_session=True)  # fmt: skip
        cpu_s, status = _wait(process)
    try:
        return Reading(figures=tool.figures(setting), cpu_s=cpu_s)
    except (OSError, ValueError, IndexError) as error:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return Reading(figures={}, cpu_s=cpu_s, trouble=f"exit {status}: {(lines or [str(error)])[-1][:120]}")


def _wait(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    """Processor seconds of the process and everything it waited for, and how it ended."""
    until_s = time.monotonic() + RUN_S
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime, process.returncode
        if time.monotonic() > until_s:
            os.killpg(process.pid, 9)
        time.sleep(0.05)


class Ours:
    """The load client of this project."""

    label = "infra-agent"

    def command(self, case: Case, setting: Setting, seed: int) -> list[str]:
        """What to run."""
        load = ["--concurrency", str(case.users)] if case.users else ["--rate", f"{case.rate_per_s}"]
        load += ["--arrivals", "constant"] if case.rate_per_s else []
        return [
            sys.executable, "-m", "probes.load", "--url", setting.url, "--model", "mock", *load,
            "--requests", str(case.requests), "--warmup", "0", "--max-tokens", str(case.asked_tokens),
            "--prompts", str(setting.prompts), "--output", str(setting.folder / "ours.json"), "--seed", str(seed),
            *(["--per-chunk-usage"] if case.per_chunk_usage else []),
            *(["--allow-failures", str(case.requests)] if case.may_fail else []),
        ]  # fmt: skip

    def figures(self, setting: Setting) -> dict[str, float]:
        """What it wrote."""
        document = json.loads((setting.folder / "ours.json").read_text())
        (found,) = read_runs(setting.folder / "ours.json")
        figures = _with_counts(found)
        peak = number(at(document, "windows", 0, "observation", "signals", "in_flight_max"))
        if found.refused and found.completed:
            raise ValueError(found.refused)
        return figures | ({"peak_in_flight": peak} if peak is not None else {})


class VllmServe:
    """`vllm bench serve`, by its module: its command asks for metadata that the package for CPUs does not have."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.label = peer, peer.label

    def command(self, case: Case, setting: Setting, seed: int) -> list[str]:
        """What to run."""
        load = ["--max-concurrency", str(case.users)] if case.users else ["--request-rate", f"{case.rate_per_s}"]
        load += ["--burstiness", "1e6"] if case.rate_per_s else []
        return [
            str(python_of(self.peer)), "-c", VLLM, "--backend", "openai-chat", "--base-url", setting.url,
            "--endpoint", "/v1/chat/completions", "--model", "mock", "--tokenizer", str(setting.tokenizer),
            "--dataset-name", "custom", "--dataset-path", str(setting.prompts), "--skip-chat-template",
            "--custom-output-len", str(case.asked_tokens), "--num-prompts", str(case.requests), *load,
            "--save-result", "--result-filename", str(setting.folder / "vllm.json"), "--disable-tqdm",
            "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99", "--seed", str(seed),
        ]  # fmt: skip

    def figures(self, setting: Setting) -> dict[str, float]:
        """What it wrote."""
        path = setting.folder / "vllm.json"
        (found,) = read_runs(path)
        peak = number(json.loads(path.read_text()).get("max_concurrent_requests"))
        return _with_counts(found) | ({"peak_in_flight": peak} if peak is not None else {})


class GuideLlm:
    """GuideLLM's `run`."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.label = peer, peer.label

    def command(self, case: Case, setting: Setting, seed: int) -> list[str]:
        """What to run."""
        profile = f"kind=concurrent,streams={case.users}" if case.users else f"kind=constant,rate={case.rate_per_s}"
        mapper = {"kind": "generative_column_mapper", "column_mappings": {"text_column": "prompt"}}
        return [
            str(python_of(self.peer)), "-m", "guidellm", "run", "--backend",
            f"kind=openai_http,target={setting.url},model=mock,request_format=/v1/chat/completions,"
            f"max_tokens={case.asked_tokens}",
            "--profile", profile, "--constraint", f"kind=max_requests,count={case.requests}",
            "--tokenizer", f"kind=huggingface_auto,model={setting.tokenizer}",
            "--data", f"kind=json_file,path={setting.prompts}", "--data-column-mapper", json.dumps(mapper),
            "--output", f"kind=json,path={setting.folder / 'guidellm.json'}", "--disable-console-interactive",
        ]  # fmt: skip

    def figures(self, setting: Setting) -> dict[str, float]:
        """What it wrote."""
        path = setting.folder / "guidellm.json"
        (found,) = read_runs(path)
        peak = number(
            at(json.loads(path.read_text()), "benchmarks", 0, "metrics", "request_concurrency", "total", "max")
        )
        return _with_counts(found) | ({"peak_in_flight": peak} if peak is not None else {})


class AiPerf:
    """AIPerf's `profile`."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.label = peer, peer.label

    def command(self, case: Case, setting: Setting, seed: int) -> list[str]:
        """What to run."""
        load = ["--concurrency", str(case.users)] if case.users else ["--request-rate", f"{case.rate_per_s}"]
        load += ["--arrival-pattern", "constant"] if case.rate_per_s else []
        return [
            str(python_of(self.peer)), "-m", "aiperf", "profile", "-m", "mock", "--url", setting.url,
            "--endpoint-type", "chat", "--streaming", "--tokenizer", str(setting.tokenizer),
            "--use-server-token-count", *(["--per-chunk-usage"] if case.per_chunk_usage else []),
            "--input-file", str(setting.texts), "--custom-dataset-type", "single_turn", *load,
            "--request-count", str(case.requests), "--random-seed", str(seed), "--ui", "none",
            "--output-artifact-dir", str(setting.folder / "aiperf"),
        ]  # fmt: skip

    def figures(self, setting: Setting) -> dict[str, float]:
        """What it wrote."""
        path = setting.folder / "aiperf" / "profile_export_aiperf.json"
        (found,) = read_runs(path)
        document = json.loads(path.read_text())
        peak = number(at(document, "effective_concurrency", "max"))
        scheduled = number(at(document, "effective_latency", "avg"))
        return (
            _with_counts(found)
            | ({"peak_in_flight": peak} if peak is not None else {})
            | ({"e2e_scheduled_s": scheduled * 1e-3} if scheduled is not None else {})
        )


def peer_tools() -> list[VllmServe | GuideLlm | AiPerf]:
    """The peers in the order of the table."""
    kinds = {"vllm": VllmServe, "guidellm": GuideLlm, "aiperf": AiPerf}
    return [kinds[peer.name](peer) for peer in PEERS]


def _with_counts(found: ForeignRun) -> dict[str, float]:
    counts = {"completed": found.completed, "output_tokens": found.output_tokens}
    return {**found.figures, **{name: float(count) for name, count in counts.items() if count is not None}}


def write_prompts(folder: Path, count: int) -> tuple[Path, Path]:
    """The same prompts in the forms that the tools read."""
    texts = [f"Tell me about number {n} and its neighbours, please; " + LONG for n in range(count)]
    rows: Sequence[tuple[str, str]] = (("prompts.jsonl", "prompt"), ("texts.jsonl", "text"))
    for name, key in rows:
        (folder / name).write_text("".join(json.dumps({key: text}) + "\n" for text in texts), encoding="utf-8")
    return folder / "prompts.jsonl", folder / "texts.jsonl"


LONG = "say what they have in common and why anybody ever thought that one of them was lucky " * 4
