"""Reads result files of any known tool; which one it is shows in the file itself.

Covered: JSON and JSON lines, one run or several, a file or a folder of files. Not covered: CSV and YAML forms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.load.foreign.aiperf import is_aiperf, read_aiperf
from probes.load.foreign.bench_serve import is_sglang, is_vllm, read_sglang, read_vllm
from probes.load.foreign.guidellm import is_guidellm, read_guidellm
from probes.load.foreign.llmd import is_llmd, read_llmd
from probes.load.foreign.model import ForeignRun
from probes.load.foreign.own import is_own, read_own

KNOWN = "infra-agent, vllm bench serve, SGLang, GuideLLM, AIPerf, llm-d benchmark_report"
MOST_BYTES = 2 * 1024**3


def read_runs(path: Path) -> list[ForeignRun]:
    """All runs of a file, or of the result files of a folder in order of name. ValueError says what is wrong."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".json", ".jsonl") and file.is_file())
        if not files:
            raise ValueError(f"{path} holds no .json or .jsonl file")
        return [run for file in files for run in read_runs(file)]
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path} is larger than 2 GiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    runs = [run for number, document in enumerate(_documents(text, path)) for run in _read(document, path, number)]
    if not runs:
        raise ValueError(f"{path} holds no run")
    return runs


def _read(document: Any, path: Path, number: int) -> list[ForeignRun]:
    source = str(path) if number == 0 else f"{path}:{number + 1}"
    if not isinstance(document, Mapping):
        raise ValueError(f"{source}: a result is a JSON object; known tools: {KNOWN}")
    if is_own(document):
        return read_own(document, source)
    if is_guidellm(document):
        return read_guidellm(document, source)
    for known, read in (
        (is_llmd, read_llmd), (is_aiperf, read_aiperf), (is_vllm, read_vllm), (is_sglang, read_sglang),
    ):  # fmt: skip
        if known(document):
            return [read(document, source)]
    raise ValueError(f"{source}: no result of a known tool ({KNOWN})")


def _documents(text: str, path: Path) -> list[Any]:
    """One document, or one for each line."""
    try:
        whole = json.loads(text)
    except ValueError as error:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2:
            raise ValueError(f"{path} is not JSON: {error}") from error
        return [_line(line, f"{path}:{number}") for number, line in lines]
    return list(whole) if isinstance(whole, list) else [whole]


def _line(line: str, place: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
